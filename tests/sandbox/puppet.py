"""Run in a zygote before it forks: its children say to each request what a script says, and nothing else.

The script is the file that is loaded, or `script.json` in the folder of a build: JSON, from the name of an operation to
a list of messages, each sent as it is but for `"SEQ"`, which becomes the number of the request.
"""

import json
import os
import struct
from pathlib import Path

from pytest_kbench.sandbox import child


class Puppet(child.LoadedCandidate):
    """Follows the script; does what the real one does where the script says nothing."""

    def answer(self, request):
        """What the script says, else the honest answer."""
        if request["op"] in ("load", "build"):
            self.script = json.loads(Path(request.get("path") or f"{request['directory']}/script.json").read_text())
        if request["op"] in self.script:
            return {"messages": self.script[request["op"]]}
        return (
            {"is": "loaded", "entry_point": request["entry_points"][0], "backward": False}
            if request["op"] == "load"
            else {}
        )

    def reply(self, seq, body):
        """Send the script's messages."""
        if "messages" not in body:
            super().reply(seq, body)
            return
        for message in body["messages"]:
            if message == "EXIT":
                os._exit(7)
            data = json.dumps(message).replace('"SEQ"', str(seq)).encode()
            self._channel.sendall(struct.pack(">I", len(data)) + data)


child.LoadedCandidate = Puppet
