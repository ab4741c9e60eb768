// PostgreSQL lives in a library of its own, loaded when a URL of it is given: libpqxx brings libpq, Kerberos and LDAP,
// which no other verb has a use for, and ddl is built and started without them.
#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>

#include "core/error.h"
#include "core/own_library.h"
#include "history/connection.h"
#include "history/postgres/postgres.h"

namespace ddl::history {

std::unique_ptr<Connection> open_postgres(const std::string& url) {
  const std::filesystem::path library = own_library("libddl-postgres.so");
  std::error_code error;
  if (!std::filesystem::exists(library, error))
    throw Error("this copy of ddl was built without PostgreSQL",
                "install libpqxx-dev and build it again, or keep the history in a file: --database runs.sqlite");
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = dlerror();
    throw Error(fmt::format("cannot load {}: {}", library.string(), why == nullptr ? "?" : why),
                "install libpqxx: apt-get install libpqxx-6.4");
  }
  const auto open = reinterpret_cast<decltype(&ddl_open_postgres)>(dlsym(handle, "ddl_open_postgres"));
  if (open == nullptr) throw Error(fmt::format("{} belongs to another version of ddl", library.string()));
  return std::unique_ptr<Connection>(open(url));  // the library stays: the connection's code lies in it
}

}  // namespace ddl::history
