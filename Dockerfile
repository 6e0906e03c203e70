# The service in a container:
#   docker build --build-arg TORCH_INDEX=ADDRESS -t tacit .
#   docker run -p 8000:8000 -v tacit:/data -e TACIT_API_KEY=KEY tacit
#   docker run -p 8000:8000 -v "$PWD/runs:/data" tacit serve mine --host 0.0.0.0
FROM python:3.11-slim

# The address of PyTorch's packages for CPUs, which pytorch.org tells; without it torch comes with CUDA, gigabytes larger.
ARG TORCH_INDEX=

WORKDIR /build
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
RUN pip install --no-cache-dir ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} --constraint constraints.txt torch \
    && pip install --no-cache-dir --constraint constraints.txt '.[server,pandas,large,index]' \
    && rm -rf /build/*

RUN useradd --create-home --uid 1000 tacit && install --directory --owner tacit /data
USER tacit
WORKDIR /data
ENV TACIT_CACHE=/data/cache
EXPOSE 8000
ENTRYPOINT ["tacit"]
CMD ["serve", "world", "--host", "0.0.0.0"]
