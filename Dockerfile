# SpanLab on a CPU. The steps are those of the README:
#   docker build --tag spanlab .
#   docker run --rm --volume "$PWD:/work" spanlab predict MODEL --input texts.txt --json
# and, with the extra for HTTP, as a server:
#   docker build --target serve --tag spanlab-serve .
#   docker run --rm --publish 127.0.0.1:8000:8000 spanlab-serve spanbert-mini-en --host 0.0.0.0 --insecure
FROM python:3.11-slim AS base
ENV PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /spanlab
COPY . .
RUN pip install -c constraints.txt .
RUN spanlab doctor --offline
WORKDIR /work

FROM base AS serve
RUN pip install -c /spanlab/constraints.txt "/spanlab[serve]"
RUN useradd --create-home spanlab
USER spanlab
EXPOSE 8000
HEALTHCHECK CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/health/ready', timeout=5)"]
ENTRYPOINT ["spanlab", "serve"]

FROM base
ENTRYPOINT ["spanlab"]
CMD ["--help"]
