#!/usr/bin/env python3
"""What ddl records of `network --split`, layer by layer, is what ddl model parallel predicts, to the byte."""
import json

import job

NETWORK = job.BUILD / "bin" / "network"
RANKS, BATCH, STEPS = 2, 4, 3
# Halos are messages; of a collective between the ranks of the replica the whole array counts, as the prediction does.
RECORDED = ("SELECT layer, phase, sum(bytes) FROM (SELECT layer, phase, bytes FROM v_collective WHERE step = 1 AND rank = 0 AND layer NOT LIKE 'bucket%' "
            "UNION ALL SELECT layer, phase, bytes FROM v_message WHERE step = 1 AND source = 0) GROUP BY layer, phase")


def forms(folder):
    for form in ("spatial", "channel", "filter"):
        run_dir = folder / f"{form}.ddl"
        job.record(run_dir, ["mpirun", "--oversubscribe", "-np", RANKS, NETWORK, "--table", "lenet5", "--batch", BATCH, "--steps", STEPS, "--split",
                             f"{form}:{RANKS}"], check_rc=0)
        recorded = {(layer, phase): size for layer, phase, size in job.store(run_dir).execute(RECORDED)}
        model = job.run([job.BUILD / "bin" / "ddl", "model", "parallel", "--table", "lenet5", "--ranks", RANKS, "--batch", BATCH, "--group", RANKS,
                         "--form", form, "--json"], check_rc=0)
        predicted = {}
        for before, layer in zip([None] + json.loads(model.stdout)["layers"], json.loads(model.stdout)["layers"]):
            # A change of layout is gathered on the side of what is whole: forward into it, backward out of it.
            whole = {"replicated"}
            forward = layer["moved_bytes"] if layer["form"] in whole else 0
            for phase, size in (("forward", layer["forward_bytes"] + forward), ("backward", layer["backward_bytes"] + layer["moved_bytes"] - forward)):
                if size:
                    predicted[layer["layer"], phase] = size
        job.check(predicted and recorded == predicted, f"{form}: recorded {recorded}, predicted {predicted}")


if __name__ == "__main__":
    job.main(forms)
