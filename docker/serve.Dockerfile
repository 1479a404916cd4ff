# The model server. `tasks/package.py` lays out rootfs/ on the host, so the build needs no network and works with any builder.
ARG BASE_IMAGE=python:3.11-slim
FROM ${BASE_IMAGE}

COPY rootfs/site/ /opt/paddleship/site/
COPY rootfs/app/ /opt/paddleship/app/
COPY rootfs/lib/ /opt/paddleship/lib/
COPY rootfs/model/ /opt/paddleship/model/

ENV PYTHONPATH=/opt/paddleship/app:/opt/paddleship/site \
    LD_LIBRARY_PATH=/opt/paddleship/lib \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    HOME=/tmp

USER 10001:10001
WORKDIR /tmp
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s --retries=3 CMD ["python", "-m", "paddleship.shipped.serving.health"]
ENTRYPOINT ["python", "-m", "paddleship.shipped.serving", "--candidate", "/opt/paddleship/model", "--host", "0.0.0.0", "--port", "8000"]
