#!/usr/bin/env python3
"""Every function that mpi.h declares is either a row of the table or exempt, for a reason that is written here.

The rows are those of the library that was built (exports.py: it shows what the table says), the functions those that the C compiler sees in the
installed mpi.h. A call that communicates, completes, synchronises, creates or frees communicators, windows, files or requests has a row.

usage: table_complete.py LIBRARY COMPILER...
"""
import re
import subprocess
import sys

library, *compiler = sys.argv[1:]

# reason -> names, as regular expressions of the whole name without MPI_; `_c`: the large-count variant of MPI 4 where there is one.
EXEMPT = {
    "the tools interface, which measures and does not take part": r"T_\w+",
    "builds and asks datatypes: local": r"Type_\w+|Address|Get_address|Aint_(add|diff)|Register_datarep(_c)?|Sizeof",
    "groups are local; what makes a communicator of one has a row": r"Group_\w+",
    "info objects: local": r"Info_\w+",
    "hints of an object: local in the libraries that we know": r"(Comm|Win)_set_info",
    "error handlers, codes and classes: local": r"(Comm|Win|File|Session)_(create|get|set|call)_errhandler|Errhandler_\w+|Error_(class|string)|Add_error_(class|code|string)",
    "attributes and their keys: local, callbacks of the caller": r"(Comm|Win)_((get|set|delete)_attr|(create|free)_keyval)|Attr_(get|put|delete)|Keyval_(create|free)",
    "handles of other languages: local": r"(Comm|File|Message|Op|Request|Win|Status)_(c2f|f2c)|Status_(c2f08|f082c|f082f|f2f08)",
    "reduction operations and what they compute locally": r"Op_(create|create_c|free|commutative)|Reduce_local(_c)?",
    "packing: local copies": r"(Pack|Unpack|Pack_external|Unpack_external|Pack_size|Pack_external_size)(_c)?",
    "asks a communicator: local": r"Comm_(rank|size|group|remote_group|remote_size|compare|test_inter|get_name|get_info)",
    "asks a topology, or computes one: local":
        r"Cart_(coords|get|map|rank|shift)|Cartdim_get|Dims_create|Graph_(get|map|neighbors|neighbors_count)|Graphdims_get|Dist_graph_neighbors(_count)?|Topo_test",
    "asks a window: local": r"Win_(get_group|get_info|get_name|shared_query|shared_query_c)",
    "asks a file or moves this rank's own pointer: local":
        r"File_(get_(amode|atomicity|byte_offset|group|info|position|size|type_extent|type_extent_c|view)|seek)",
    "reads or writes a status: local": r"Get_count(_c)?|Get_elements(_x|_c)?|Test_cancelled|Status_set_(cancelled|elements|elements_x)",
    "asks the environment: local": r"Get_(library_version|processor_name|version)|(Initialized|Finalized|Is_thread_main|Query_thread|Wtime|Wtick)",
    "memory of the caller: local": r"Alloc_mem|Free_mem|Buffer_attach(_c)?",
    "names and ports, kept by the launcher: no rank takes part": r"(Open|Close)_port|(Publish|Unpublish|Lookup)_name",
    "extensions of one library, but for the persistent collectives that later came into the standard": r"MPIX_(?!\w+_init$)\w+",
    "asks a session: local": r"Session_get_(info|nth_pset|num_psets|pset_info)",
}

# Rows of libddl.so, which serves Open MPI 4 and 5, whichever mpi.h this is: the persistent collectives under both their names, and what 5 has of MPI 4.
OF_OTHER_RELEASES = (r"MPIX?_\w+_init|MPI_(Session_(init|finalize)|(Comm|Intercomm)_create_from_groups?|Comm_idup_with_info|Isendrecv(_replace)?|Parrived|Pready(_range|_list)?)")


def declared():
    """Names of the functions that the preprocessed header declares: a type, the name, a parenthesis, outside of any other."""
    text = subprocess.run([*compiler, "-E", "-P", "-x", "c", "-"], input="#include <mpi.h>\n#if __has_include(<mpi-ext.h>)\n#include <mpi-ext.h>\n#endif\n", capture_output=True, text=True, check=True).stdout
    names = set()
    for statement in re.sub(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)", " ", text).split(";"):
        found = re.match(r"\s*(?:extern\s+)?(?!typedef\b)\w+[\w\s*]*?\b(MPIX?_\w+)\s*\(", statement)
        if found:
            names.add(found[1])
    return names


rows = {name for line in subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout.splitlines()
        if (name := line.split()[-1].split("@")[0]).startswith(("MPI_", "MPIX_"))}
functions = declared()
exempt = {}
failed = False


def say(message, names):
    global failed
    if names:
        failed = True
        print(f"FAILED: {message} ({len(names)}): {' '.join(sorted(names))}")


for reason, pattern in EXEMPT.items():
    found = {name for name in functions if re.fullmatch(pattern if pattern.startswith("MPIX") else f"MPI_(?:{pattern})", name)}
    for name in found & exempt.keys():
        say("exempt for two reasons", {name})
    exempt.update(dict.fromkeys(found, reason))
    if found:
        print(f"exempt, {reason}: {len(found)}")

if len(functions) < 350:
    say("too few functions seen in mpi.h, this test is blind", functions or {"none"})
say("neither a row nor exempt", functions - rows - exempt.keys())
say("a row and exempt", rows & exempt.keys())
say("a row that mpi.h does not declare", {name for name in rows - functions if not re.fullmatch(OF_OTHER_RELEASES, name)})
print(f"{len(functions)} functions = {len(rows & functions)} rows + {len(exempt)} exempt" + (" + the failed" if failed else ""))
sys.exit(1 if failed else 0)
