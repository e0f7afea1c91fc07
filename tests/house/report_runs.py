"""Writes folders of runs as training leaves them, with the records of a step whose figures can be worked out by hand."""
import json


def pipeline_events(stages, micro_batches, forward, scale):
    """Of each stage the events of a pipeline that goes forward for all micro-batches, then backward: computation and links."""
    events, backward = [[] for _ in range(stages)], 2 * forward
    turn = (stages + micro_batches - 1) * forward
    for stage in range(stages):
        for batch in range(micro_batches):
            begin = (stage + batch) * forward
            events[stage].append([f"F{batch} segment {stage}", "forward", 0, begin * scale, (begin + 0.9 * forward) * scale])
            if stage + 1 < stages:
                events[stage].append([f"send F{batch}", "transfer", 1, (begin + 0.9 * forward) * scale, (begin + forward) * scale])
        for batch in range(micro_batches):
            begin = turn + (stages - 1 - stage + batch) * backward
            events[stage].append([f"B{batch} segment {stage}", "backward", 0, begin * scale, (begin + 0.95 * backward) * scale])
        first = turn + (stages - 1 - stage) * backward
        events[stage].append(["wait", "wait", 0, ((stage + micro_batches) * forward - 0.1 * forward) * scale, first * scale])
    return events, (turn + (stages + micro_batches - 1) * backward) * scale


def step_record(source, stages, micro_batches=4, scale=1.0):
    events, end = pipeline_events(stages, micro_batches, 0.02, scale)
    gib = 2.0**30
    records = []
    for stage in range(stages):
        busy = sum(event[4] - event[3] for event in events[stage] if event[1] in ("forward", "backward"))
        waits = 0.75 * (end - busy)  # for other stages, which only a prediction divides
        samples = [[end * i / 40, (6 + 2 * scale * min(i, 40 - i) / 20 - stage / stages) * gib] for i in range(41)]
        records.append({
            "stage": stage, "rank": 2 * stage,
            "seconds": {"products": 0.7 * busy, "attention": 0.2 * busy, "elements": 0.1 * busy, "waits for shard_gradients": 0.25 * (end - busy),
                        **({"waits in the bubble": 0.8 * waits, "waits for queued transfers": 0.2 * waits} if source == "predicted" else
                           {"waits for stages": waits})},
            "memory_bytes": {"weights": 2 * gib, "gradients": gib, "optimizer": 3 * gib, "activations": (2 * scale - stage / stages) * gib},
            "events": events[stage], "memory": samples,
        })  # fmt: skip
    return {
        "source": source, "machine": "frontier" if source == "predicted" else "", "software": "megatron" if source == "predicted" else "",
        "step": 0 if source == "predicted" else 5, "step_seconds": end, "model_flops": 2e13, "peak_flops": 1.9e14, "memory_bandwidth": 1.6e12,
        "links": ["node"], "stages": records,
        "groups": [
            {"name": "shard_gradients", "tier": "node", "stage": 1, "bytes": 3e9, "moving_seconds": 0.06 * scale, "waiting_seconds": 0.02 * scale},
            {"name": "tensor", "tier": "package", "stage": 0, "bytes": 5e9, "moving_seconds": 0.0 if source == "measured" else 0.05,
             "waiting_seconds": 0.05 * scale},
            {"name": "stages", "tier": "node", "stage": 0, "bytes": 2e9, "moving_seconds": 0.04 * scale,
             "waiting_seconds": None if source == "predicted" else 0.01},
        ],
        "operations": [
            {"name": "products", "seconds": 0.3 * scale, "flops": 3e13, "bytes": 9e10},
            {"name": "attention", "seconds": 0.1 * scale, "flops": 4e12, "bytes": 4e10},
            {"name": "elements", "seconds": 0.05 * scale, "flops": 0.0, "bytes": 5e10},
        ],
    }  # fmt: skip


def write_run(folder, stages=2, seed=0, micro_batches=4, sources=("predicted", "measured"), steps=200):
    """A run's folder as training leaves it, with the records of the sources."""
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps({
        "parameters": 124439808, "precision": "bf16", "loss_unit": "nats a token", "peak_name": "the bf16 product",
        "peak_flops_per_second": 4e11, "baselines": [{"key": "unigram_loss", "name": "unigram model", "loss": 6.764}]}))  # fmt: skip
    with (folder / "metrics.jsonl").open("w") as file:
        for step in range(1, steps + 1):
            line = {"step": step, "loss": 4 + seed / 4 + 5 / (1 + step / 10) + 0.05 * (step * 7919 % 13 / 13), "gradient_norm": 1.0,
                    "learning_rate": 1e-3, "tokens": 4096 * step, "tokens_per_second": 5424.0, "step_seconds": 0.5 + 0.001 * (step % 7),
                    "mfu": 0.5, "peak_flops_per_second": 4e11, "memory_bytes": 622854144}  # fmt: skip
            file.write(json.dumps(line) + "\n")
            if step % 50 == 0:
                file.write(json.dumps({"step": step, "validation_loss": 4.1 + seed / 4 + 5 / (1 + step / 10)}) + "\n")
    for source in sources:
        record = step_record(source, stages, micro_batches, 1.0 if source == "predicted" else 1.12)
        (folder / f"{source}_step.json").write_text(json.dumps(record))
    return folder
