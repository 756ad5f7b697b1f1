#!/usr/bin/python
# Copyright: (c) 2026, The nodesmith authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module that asks an OpenAI-compatible service one question and judges the answer."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: model_ask
author: The nodesmith authors (@nodesmith)
version_added: 0.1.0
short_description: Ask a served language model one question and check the answer
description:
  - Sends one chat message to an OpenAI-compatible service, greedily, so that the answer is the same each
    time.
  - Fails when the service does not answer, refuses, or answers something else than expected. Changes nothing.
attributes:
  check_mode:
    description: Can run in check mode and return the same as without it.
    support: full
  diff_mode:
    description: Has nothing to show.
    support: none
options:
  url:
    description: Base URL of the API, with its C(/v1).
    type: str
    required: true
  api_key:
    description: The bearer token. Left out where the service wants none.
    type: str
  model:
    description: Name of the model.
    type: str
    required: true
  question:
    description: The message.
    type: str
    required: true
  expect:
    description: What the answer has to contain. When empty, any answer with a word in it will do.
    type: str
    default: ""
  max_tokens:
    description: Longest answer.
    type: int
    default: 48
  timeout:
    description: Seconds to wait for the service to take the request, and for each part of its answer.
    type: int
    default: 120
  ca_path:
    description: Certificates to trust beside the system's.
    type: path
"""

EXAMPLES = r"""
- name: Ask a question
  nodesmith.cluster.model_ask:
    url: http://127.0.0.1:8000/v1
    api_key: "{{ vault_key }}"
    model: smollm2-135m-instruct
    question: What is the capital of France?
    expect: Paris
  register: answer
"""

RETURN = r"""
completion:
  description: The answer.
  returned: success
  type: str
tokens:
  description: Number of tokens in the answer.
  returned: success
  type: int
seconds:
  description: From the request to the whole answer, the prompt's share included.
  returned: success
  type: float
tokens_per_second:
  description: C(tokens) over C(seconds).
  returned: success
  type: float
"""

import http.client
import json
import time
import urllib.error
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.urls import ConnectionError as UrlConnectionError
from ansible.module_utils.urls import open_url

REMEDIES = {
    401: "Is api_key one of the keys that the service knows?",
    403: "Is api_key one of the keys that the service knows?",
    404: "Does url end in the API's version, as in /v1, and does the service have that model?",
    429: "It is busy: ask again later.",
    503: "It is not ready: wait for its health check.",
}


def parse(reply: Any) -> tuple[str, int]:
    """Return the text and the number of tokens of a chat completion.

    :raises ValueError: it is none; the message says what is missing
    """
    try:
        text, tokens = reply["choices"][0]["message"]["content"], reply["usage"]["completion_tokens"]
    except (KeyError, IndexError, TypeError) as error:
        raise ValueError(f"no choices with a message, or no usage in {json.dumps(reply)[:500]}") from error
    if not isinstance(text, str) or not isinstance(tokens, int):
        raise ValueError(f"the answer {text!r} of {tokens!r} tokens is no text of a number of tokens")
    return text.strip(), tokens


def main() -> None:
    """Ask, measure and judge."""
    module = AnsibleModule(
        argument_spec={
            "url": {"type": "str", "required": True},
            "api_key": {"type": "str", "no_log": True},
            "model": {"type": "str", "required": True},
            "question": {"type": "str", "required": True},
            "expect": {"type": "str", "default": ""},
            "max_tokens": {"type": "int", "default": 48, "no_log": False},
            "timeout": {"type": "int", "default": 120},
            "ca_path": {"type": "path"},
        },
        supports_check_mode=True,
    )
    params = module.params
    for option in ("max_tokens", "timeout"):
        if params[option] < 1:
            module.fail_json(msg=f"{option} is {params[option]}: it must be at least 1")
    headers = {"Content-Type": "application/json"}
    if params["api_key"]:
        headers["Authorization"] = "Bearer " + params["api_key"]
    body = {
        "model": params["model"],
        "messages": [{"role": "user", "content": params["question"]}],
        "max_tokens": params["max_tokens"],
        "temperature": 0,
    }
    url = params["url"].rstrip("/") + "/chat/completions"
    start = time.monotonic()
    try:
        with open_url(
            url,
            method="POST",
            data=json.dumps(body),
            headers=headers,
            timeout=params["timeout"],
            ca_path=params["ca_path"],
            use_proxy=False,
        ) as response:
            reply = json.load(response)
        seconds = time.monotonic() - start
        completion, tokens = parse(reply)
    except urllib.error.HTTPError as error:
        text = error.read(2000).decode("utf-8", "replace").strip()
        module.fail_json(msg=f"{url} answered {error.code}: {text} {REMEDIES.get(error.code, '')}".rstrip())
    except ValueError as error:
        module.fail_json(
            msg=f"{url} did not give a chat completion: {error}. Is url that of an OpenAI-compatible API?"
        )
    except (OSError, http.client.HTTPException, UrlConnectionError) as error:
        module.fail_json(
            msg=f"{url} did not answer, after {time.monotonic() - start:.1f} s of {params['timeout']} s: "
            f"{error!r}. Does the service run, and is it reached from here?"
        )
    if not completion or params["expect"] not in completion:
        module.fail_json(
            msg=f"to {params['question']!r} the model {params['model']} answered {completion!r}; expected "
            f"was {params['expect'] or 'something'!r}. Is this the checkpoint that it is expected of?"
        )
    module.exit_json(
        changed=False,
        completion=completion,
        tokens=tokens,
        seconds=round(seconds, 3),
        tokens_per_second=round(tokens / seconds, 1),
    )


if __name__ == "__main__":
    main()
