"""`python -m …transports.http.stopped_server PORT`: a server that answers a body with its length, until SIGTERM."""

import sys

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from paddleship.shipped.serving.budget import Budget
from paddleship.shipped.serving.transports.http.connections import Guard
from paddleship.shipped.serving.transports.http.limits import ConnectionLimits
from paddleship.shipped.serving.transports.http.server import make_server


async def length(request: Request) -> Response:
    return Response(str(len(await request.body())))


app = Starlette(routes=[Route("/", length, methods=["POST"])])
make_server(app, Guard(ConnectionLimits(), Budget(10**8)), host="127.0.0.1", port=int(sys.argv[1])).run()
