#!/usr/bin/env python3
"""The program `allreduce` on two hosts of two ranks: it knows its nodes, and every algorithm adds up across them."""
import csv

import job
import virtual_hosts

virtual_hosts.enter()

ALLREDUCE = job.BUILD / "bin" / "allreduce"


def two_nodes(folder):
    hosts = virtual_hosts.Hosts(folder)
    for mapping in ("slot", "node"):  # ranks 0, 1 | 2, 3 and 0, 2 | 1, 3
        done = hosts.run("nodea", ["mpirun", "-np", 4, "--map-by", mapping, "--host", "nodea:2,nodeb:2", ALLREDUCE, "--bytes", "4,256K", "--segments",
                                   "16K", "--rounds", 2, "--calls", 3, "--seconds", 200], check_rc=0)
        lines = done.stdout.splitlines()
        job.check(lines[0].startswith("# allreduce 1 ranks=4 nodes=2 library="), f"{mapping}: first line {lines[0]}")
        rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
        large = [row["algorithm"] for row in rows if row["bytes"] == "262144" and row["round"] == "1"]
        own = {"parameter_server", "tree", "butterfly", "rabenseifner", "ring", "segmented_ring", "hierarchical", "multi_ring:2x2"}
        job.check({"default", "default_again"} | own <= set(large), f"{mapping}: measured {large}, {lines[-3:]}")


job.main(two_nodes)
