"""Hosts send to the server as fast as they can; prints the bytes of each tenth of a second.

Arguments: run folder, seconds, names of the senders. The run's clock starts with the first tenth.
"""

import json
import os
import select
import socket
import sys
import threading
import time
from pathlib import Path

from mlfabric.emulation.hosts import address, enter

RECEIVER = 1
PORT = 5000
TENTH_S = 0.1


def send_for_ever(connection: socket.socket) -> None:
    data = bytes(64 * 1024)
    while True:
        connection.sendall(data)


run_dir, seconds = Path(sys.argv[1]), float(sys.argv[2])
enter("server")
listener = socket.create_server((address(RECEIVER), PORT), backlog=64)
receivers = []
for argument in sys.argv[3:]:
    enter(argument)
    connection = socket.create_connection((address(RECEIVER), PORT))
    receivers.append(listener.accept()[0])
    threading.Thread(target=send_for_ever, args=(connection,), daemon=True).start()

start_s = time.monotonic()
(run_dir / "clock_start.tmp").write_text(repr(start_s))
(run_dir / "clock_start.tmp").rename(run_dir / "clock_start")
tenths = [0] * round(seconds / TENTH_S)
while (elapsed_s := time.monotonic() - start_s) < seconds:
    for ready in select.select(receivers, [], [], 0.01)[0]:
        tenths[int(elapsed_s / TENTH_S)] += len(ready.recv(1 << 20))
print(json.dumps(tenths), flush=True)
os._exit(0)
