# SpanLab on a CPU. The steps are those of the README:
#   docker build --tag spanlab .
#   docker run --rm --volume "$PWD:/work" spanlab predict MODEL --input texts.txt --json
FROM python:3.11-slim
ENV PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /spanlab
COPY . .
RUN pip install -c constraints.txt .
RUN spanlab doctor --offline
WORKDIR /work
ENTRYPOINT ["spanlab"]
CMD ["--help"]
