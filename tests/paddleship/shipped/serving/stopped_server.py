"""`python -m tests.paddleship.shipped.serving.stopped_server PORT`: a server that answers a body with its length, until SIGTERM."""

import sys

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from paddleship.shipped.serving.connections import Guard, make_server
from paddleship.shipped.serving.limits import ConnectionLimits


async def length(request: Request) -> Response:
    return Response(str(len(await request.body())))


app = Starlette(routes=[Route("/", length, methods=["POST"])])
make_server(app, Guard(ConnectionLimits(), 10**8), host="127.0.0.1", port=int(sys.argv[1])).run()
