"""A simulated engine: takes vLLM's command line and behaves, seen from outside, like a rank of a two-node vLLM 0.32.

`python3 -m sparkd.demo.engine serve MODEL [flags]`, or copy this folder anywhere and run its `vllm` script. It needs
nothing but the standard library of Python 3.9 or later. Behaviour, log lines and exit codes follow faults injected into
real vLLM.

Processes   rank 0: `vllm serve …` > `VLLM::EngineCore` > `VLLM::Worker`, `VLLM::Worker_TP0` once the group is formed.
            headless: `vllm serve …` > `VLLM::Worker`, then `VLLM::Worker_TP1`. As with setproctitle, a title also wipes
            the process's visible environment unless SPT_NOENV is set.
Group       rank 0 listens on the master port; each peer keeps an idle connection to it and a "fabric" connection to a
            free port. Every token is a round trip to every peer on the fabric.
Files       psm_* and sem.mp-* in /dev/shm, sparse, mapped; they stay behind after everything but a failed start.

Environment, beside vLLM's own VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS, VLLM_RINGBUFFER_WARNING_INTERVAL,
VLLM_LOG_STATS_INTERVAL, VLLM_HOST_IP (a peer's source address when it is a loopback one), VLLM_API_KEY,
GLOO_SOCKET_IFNAME, HF_HUB_OFFLINE and SPT_NOENV:
  SPARKD_SIM_START_S   seconds from exec to ready, spread over the stages (3)
  SPARKD_SIM_RATE      tokens per second and request (40)
  SPARKD_SIM_STOP_S    seconds a headless rank takes to obey SIGTERM (9: five of grace, four more until SIGKILL)
  SPARKD_SIM_DEAD_S    seconds between a dead engine (/health 503) and the head's exit (1); a 500 cuts them short
  SPARKD_SIM_SHM_DIR   where the shared memory files go (/dev/shm)
  SPARKD_SIM_FAULTS    a JSON object, or the path of a file holding one, read again at every step; it need not exist

Faults, the keys of that object (`"rank": N` beside them limits them to one rank):
  {"freeze": true}           the worker stops taking part in steps, like SIGSTOP but in state S; ends with the key
  {"hang_requests": true}    requests are accepted and never scheduled: /health green, counters frozen, no time-out
  {"slow_tokens": 0.2}       seconds per token instead of 1 / SPARKD_SIM_RATE
  {"error_chunk": true}      answers fail after two tokens: error chunk and [DONE] under 200, or 500; engine lives on
  {"nonsense": true}         every answer is one token repeated, a text: its words; all else is as ever
  {"prints": ["…"]}          these lines are the first of the rank's start-up log
  {"metrics": "…"}           this text follows what /metrics shows
  {"no_ready": true}         everything loads, the API never opens
  {"die": HOW}               at once: "exit0", "exit1", "exit127" (as a missing script), "oom" (SIGKILL, status 137)
  {"die_at_stage": STAGE, "code": N}   imports, config, core, group, weights, kvcache or ready; N is 1 unless given
  {"start_s": S}             overrides SPARKD_SIM_START_S, for one slow start

A peer with a smaller --max-num-seqs or --max-model-len than rank 0 fails as the real one does: a traceback of its own,
tokens frozen, the head's log clean.
"""
