# Copyright The ddl authors
#
# SPDX-License-Identifier: Apache-2.0

from spack.package import *

try:  # where Spack 1.0 and later have it
    from spack_repo.builtin.build_systems.cmake import CMakePackage
except ImportError:
    pass


class Sqlitecpp(CMakePackage):
    """SQLite from C++. Here because Spack's own repository lacks it."""

    homepage = "https://srombauts.github.io/SQLiteCpp"
    git = "https://github.com/SRombauts/SQLiteCpp.git"

    license("MIT", checked_by="ddl")

    version("3.3.2", tag="3.3.2", commit="08aa70a45ea52abcd8ee6b5d1ab1542140b3c7f5")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.5:", type="build")
    depends_on("sqlite@3.19: +column_metadata")

    def cmake_args(self):
        return [
            self.define("BUILD_SHARED_LIBS", True),
            self.define("SQLITECPP_INTERNAL_SQLITE", False),
            self.define("SQLITECPP_RUN_CPPLINT", False),
            self.define("SQLITECPP_RUN_CPPCHECK", False),
        ]
