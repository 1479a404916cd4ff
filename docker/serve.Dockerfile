# The model server, on an image of docker/runtime.Dockerfile. `paddleship/image/context.py` lays out its files on the host.
ARG BASE_IMAGE
FROM ${BASE_IMAGE}

COPY app/ /
COPY model/ /

ENV PYTHONPATH=/opt/paddleship/app:/opt/paddleship/site \
    LD_LIBRARY_PATH=/opt/paddleship/lib \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    ORT_DISABLE_TELEMETRY=1 \
    DO_NOT_TRACK=true \
    HOME=/tmp

USER 10001:10001
WORKDIR /tmp
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s --retries=3 CMD ["python", "-m", "paddleship.shipped.serving.health"]
ENTRYPOINT ["python", "-m", "paddleship.shipped.serving", "--candidate", "/opt/paddleship/model", "--host", "0.0.0.0", "--port", "8000"]
