"""Which variables of this process programs may see: no credentials, no model endpoints, no user folders."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

__all__ = ["scrubbed"]

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


def _sensitive(name: str) -> bool:
    if name in ("PWD", "OLDPWD"):  # working folders, not passwords
        return False
    return (
        name in _NAMES
        or name.startswith(_PREFIXES)
        or name.endswith(_ENDINGS)
        or bool(_WORDS.intersection(name.split("_")))
    )
