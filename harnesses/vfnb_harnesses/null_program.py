"""The null harness as a program: one request, the reply's text on standard output. Standard library only."""

import http.client
import json
import os
import sys
from urllib.parse import urlsplit


def main(path: str) -> int:
    """Send the request in the file `path`, which is deleted, and print the reply."""
    url = urlsplit(os.environ["OPENAI_BASE_URL"])
    with open(path, "rb") as file:  # noqa: PTH123 - pathlib costs a third of this program's start
        body = file.read()
    os.unlink(path)  # noqa: PTH108
    connect = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
    connection = connect(url.netloc, timeout=3600)
    headers = {
        "Authorization": "Bearer " + os.environ["OPENAI_API_KEY"],
        "Content-Type": "application/json",
    }
    connection.request("POST", url.path + "/chat/completions", body, headers)
    response = connection.getresponse()
    data = response.read()
    if response.status != 200:
        sys.stderr.write(f"{response.status} {data[:2000].decode(errors='replace')}\n")
        return 1
    print(json.loads(data)["choices"][0]["message"].get("content") or "")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
