"""What TCP carries between neighbours in a ring of hosts, all of them at once: each host sends to its right and
receives from its left, so that every link is busy both ways, as in a ring all-reduce. Plain sockets.

usage: peer_sockets.py HOST ADDRESS... (of all hosts, in order), on every host
Each prints the bytes a second that it received.
"""

import socket
import sys
import threading
import time

PORT = 29_450
BLOCK = 1 << 20
SETTLE, MEASURE = 0.5, 2.0  # seconds: TCP finds its pace first
PATIENCE = 20


def listen(address):
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind((address, PORT))
    server.listen()
    server.settimeout(PATIENCE)
    return server


def connect(address):
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return socket.create_connection((address, PORT), timeout=PATIENCE)
        except ConnectionRefusedError:  # not there yet
            if time.monotonic() > end:
                raise
            time.sleep(0.01)


def send_until(right, end):
    block = bytes(BLOCK)
    while time.monotonic() < end:
        right.sendall(block)
    right.shutdown(socket.SHUT_WR)


def goodput(left, right):
    """Bytes a second that came from the left while this host sent to the right."""
    begin = time.monotonic() + SETTLE
    end = begin + MEASURE
    sender = threading.Thread(target=send_until, args=(right, end + SETTLE))
    sender.start()
    room = bytearray(BLOCK)
    received, first, last = 0, None, None
    while got := left.recv_into(room):
        now = time.monotonic()
        if first is None and now >= begin:
            first = now
        elif first is not None and now <= end:
            received, last = received + got, now
    sender.join()
    return received / (last - first)


def main():
    host, addresses = int(sys.argv[1]), sys.argv[2:]
    with listen(addresses[host]) as server:
        right = connect(addresses[(host + 1) % len(addresses)])
        left, _ = server.accept()
        left.settimeout(PATIENCE)
        print(f"{goodput(left, right):.0f}")


if __name__ == "__main__":
    main()
