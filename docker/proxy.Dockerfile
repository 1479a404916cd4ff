# HAProxy with the configuration of a target: `paddleship/rollout/docker_target.py` builds it.
ARG BASE_IMAGE=haproxy:2.6
FROM ${BASE_IMAGE}

COPY haproxy.cfg /etc/paddleship/haproxy.cfg

USER 10001:10001
EXPOSE 8000 8001
STOPSIGNAL SIGUSR1
ENTRYPOINT ["haproxy", "-db", "-f", "/etc/paddleship/haproxy.cfg"]
