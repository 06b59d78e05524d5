"""Relays a free port of the loopback interface to a Unix socket, for clients without Unix sockets.

Writes the number of the port to the standard output, and ends when the standard input ends.
"""

import socket
import sys
import threading


def pump(source: socket.socket, target: socket.socket) -> None:
    """Copies bytes until the source ends."""
    try:
        while piece := source.recv(65536):
            target.sendall(piece)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        # One side has closed the connection, which ends the other side too.
        pass


def relay(client: socket.socket, path: str) -> None:
    """Joins one connection to the server."""
    with client, socket.socket(socket.AF_UNIX) as server:
        server.connect(path)
        back = threading.Thread(target=pump, args=(server, client), daemon=True)
        back.start()
        pump(client, server)
        back.join()


def serve(listener: socket.socket, path: str) -> None:
    """Accepts connections until the process ends."""
    while True:
        client, _ = listener.accept()
        threading.Thread(target=relay, args=(client, path), daemon=True).start()


def main() -> None:
    """Runs the relay to the socket that the first argument names."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    print(listener.getsockname()[1], flush=True)
    threading.Thread(target=serve, args=(listener, sys.argv[1]), daemon=True).start()
    sys.stdin.read()


main()
