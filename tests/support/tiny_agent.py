"""A tiny agent program: what is put into a wheel and installed by tests. Standard library only.

It asks the endpoint of `TINY_URL` until the model says something without the word `again`, and prints JSON.
"""

import argparse
import json
import os
import sys
import urllib.request
import uuid
from pathlib import Path

__version__ = "1.2.0"


def ask(messages: list) -> str:
    body = {"model": os.environ["TINY_MODEL"], "messages": messages}
    request = urllib.request.Request(
        os.environ["TINY_URL"] + "/chat/completions",
        json.dumps(body).encode(),
        {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ["TINY_KEY"]},
    )
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["choices"][0]["message"]["content"]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--version", action="version", version=f"tiny-agent {__version__} (test)")
    parser.add_argument("--resume")
    parser.add_argument("--system")
    parser.add_argument("--tell", help="print this fact about the box in place of an answer")
    parser.add_argument("--image", action="append", default=[])
    parser.add_argument("prompt", nargs="?")
    asked = parser.parse_args()
    home = Path.home() / ".tiny"
    home.mkdir(exist_ok=True)
    name = asked.resume or uuid.uuid4().hex
    store = home / f"{name}.json"
    history = json.loads(store.read_text()) if asked.resume else []
    if asked.system and not asked.resume:
        history.append({"role": "system", "content": asked.system})
    prompt = sys.stdin.read() if asked.prompt == "-" else asked.prompt
    history.append(
        {
            "role": "user",
            "content": prompt + "".join(f" [{Path(image).stat().st_size}]" for image in asked.image),
        }
    )
    while True:
        answer = ask(history)
        history.append({"role": "assistant", "content": answer})
        if "again" not in answer:
            break
        history.append({"role": "user", "content": "Go on."})
    store.write_text(json.dumps(history))
    if asked.tell:
        answer = str(eval(asked.tell, {"os": os, "sys": sys, "Path": Path}))
    print(json.dumps({"answer": answer, "session": name, "error": answer == "fail"}))
    return 0
