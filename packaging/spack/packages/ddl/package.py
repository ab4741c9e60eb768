# Copyright The ddl authors
#
# SPDX-License-Identifier: Apache-2.0

import os

from spack.package import *

try:  # where Spack 1.0 and later have it
    from spack_repo.builtin.build_systems.cmake import CMakePackage
except ImportError:
    pass


class Ddl(CMakePackage):
    """Profiler and tuner of distributed deep-learning jobs: records unmodified MPI, PyTorch and
    NCCL jobs, splits every collective into waiting and transfer, and names the rank to blame."""

    # The checkout that this file lies in: packaging/spack/packages/ddl.
    git = "file://" + os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 4))

    license("Apache-2.0", checked_by="ddl")

    version("main", branch="main")

    variant("tui", default=True, description="The screen of ddl-top")

    generator("ninja")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("pkgconfig", type="build")

    # libddl.so records jobs of Open MPI; it takes mpi.h and links no MPI library.
    depends_on("openmpi@4.1:5")
    depends_on("sqlite@3.37:")
    depends_on("sqlitecpp@3.2:")
    depends_on("boost@1.74: +program_options")
    depends_on("fmt@9:")
    depends_on("nlohmann-json@3.11:")
    depends_on("rapidjson@1.1:")
    depends_on("zlib-api")
    depends_on("openssl@3:")
    depends_on("eigen@3.4:3")
    depends_on("clp@1.17:")
    depends_on("openblas")
    depends_on("ncurses@6:", when="+tui")

    conflicts("platform=darwin")
    conflicts("platform=windows")
    conflicts("%gcc@:11", msg="C++20 as of GCC 12")

    def cmake_args(self):
        return [
            self.define("DDL_TESTS", "OFF"),
            self.define("DDL_BENCH", "OFF"),
            self.define("DDL_MPICH", "OFF"),
            self.define("DDL_CUDA", "OFF"),
            self.define("DDL_POSTGRES", "OFF"),
            self.define("DDL_TUI", "ON" if self.spec.satisfies("+tui") else "OFF"),
        ]

    @run_after("install")
    @on_package_attributes(run_tests=True)
    def report_of_the_shipped_run(self):
        Executable(self.prefix.bin.ddl)("report", "--demo")
