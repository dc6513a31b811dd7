#!/bin/bash
for node in 192.168.1.11 192.168.1.12; do
  ssh milo@$node "sudo sync && sudo bash -c 'echo 3 > /proc/sys/vm/drop_caches'"
done
docker run -d --name vllm_ds4 --gpus all --ipc host \
  --net host --privileged \
  -v /home/milo/models:/models \
  -v ~/.cache/vllm:/root/.cache/vllm \
  -v ~/.cache/flashinfer:/root/.cache/flashinfer \
  ghcr.io/spark-arena/dgx-vllm-eugr-nightly:latest sleep infinity
docker cp vllm-head.sh vllm_ds4:/workspace/vllm-head.sh
docker exec -d vllm_ds4 bash -c \
  "bash /workspace/vllm-head.sh > /tmp/vllm.log 2>&1"
