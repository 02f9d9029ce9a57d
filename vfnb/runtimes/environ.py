"""Which variables of this process programs may see: no credentials, no model endpoints, no user folders."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from vfnb.utils.config import hidden

__all__ = ["scrubbed", "without_secrets"]

_WORDS = {
    *("AUTH", "AUTHORIZATION", "BEARER", "COOKIE", "COOKIES", "CREDENTIAL", "CREDENTIALS", "CREDS", "DSN"),
    *("KEY", "KEYS", "KEYRING", "LICENSE", "NETRC", "PASS", "PASSPHRASE", "PASSWD", "PASSWORD", "PASSWORDS"),
    *("PAT", "PRIVATE", "PWD", "SECRET", "SECRETS", "SIGNATURE", "TOKEN", "TOKENS", "WEBHOOK"),
}
_ENDINGS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIALS")
# Variables by which a program would find a provider, an account or the user's own files past our server.
_PREFIXES = (
    *("ANTHROPIC_", "AWS_", "AZURE_", "BEDROCK_", "CEREBRAS_", "CLAUDE_", "CODEX_", "COHERE_", "DEEPSEEK_"),
    *("FIREWORKS_", "GCP_", "GEMINI_", "GH_", "GITHUB_", "GITLAB_", "GOOGLE_", "GROQ_", "JPY_", "JUPYTER_"),
    *("KAGGLE_", "KIMI_", "KUBE", "LITELLM_", "MISTRAL_", "MODAL_", "MOONSHOT_", "OLLAMA_", "OPENAI_"),
    *("OPENROUTER_", "PERPLEXITY_", "PRIME_", "REPLICATE_", "SLACK_", "TOGETHER_", "TWINE_", "UV_INDEX_"),
    *("UV_PUBLISH_", "VAULT_", "VERTEX_", "VFNB_", "WANDB_", "XAI_", "XDG_"),
)
_NAMES = {"DATABASE_URL", "DBUS_SESSION_BUS_ADDRESS", "GNUPGHOME", "GPG_AGENT_INFO", "SSH_AGENT_PID"}
_SHORTEST = 12  # characters of a key; what is set to make a program start ("dummy", "none") is shorter
_USER_IN_URL = re.compile(r"://[^/@\s]+:[^/@\s]+@")


def scrubbed(environ: Mapping[str, str], keep: Collection[str] = ()) -> dict[str, str]:
    """A copy without what looks like a credential, by name or by a password inside a URL.

    Args:
        environ: variables by name.
        keep: names that stay whatever they look like.
    """
    return {
        name: value
        for name, value in environ.items()
        if name in keep or not (_sensitive(name.upper()) or _USER_IN_URL.search(value))
    }


def without_secrets(env: dict[str, str]) -> dict[str, str]:
    """The variables of a setting, which is saved with the run.

    Raises:
        PydanticCustomError: one looks like a credential: by its name and a value that may be one, or by a password
            in a URL.
    """
    for name, value in env.items():
        if _USER_IN_URL.search(value) or (_credential(name.upper()) and _opaque(value)):
            raise hidden(
                f"{name} looks like a secret, and settings are saved with the run; set it in this process's "
                f"environment and name it in runtime.pass_env, as in pass_env=[{name!r}]"
            )
    return env


def _opaque(value: str) -> bool:
    """Whether a value may be a key: long, one word, no number (a limit of tokens), nothing to be filled in."""
    return len(value) >= _SHORTEST and not value.isdigit() and not re.search(r"[\s{}]", value)


def _sensitive(name: str) -> bool:
    return name in _NAMES or name.startswith(_PREFIXES) or _credential(name)


def _credential(name: str) -> bool:
    if name in ("PWD", "OLDPWD"):  # working folders, not passwords
        return False
    return name.endswith(_ENDINGS) or bool(_WORDS.intersection(name.split("_")))
