#include "analyzer/models/clp.h"

#include <dlfcn.h>

#include "core/error.h"

namespace ddl {
namespace {

Clp load() {
  void* library = dlopen("libClp.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    throw Error("cannot load libClp.so.1, the solver of linear programs", "install it: apt-get install coinor-libclp1");
  Clp found;
#define DDL_CLP_LOAD(name)                                                           \
  found.name = reinterpret_cast<decltype(found.name)>(dlsym(library, "Clp_" #name)); \
  if (found.name == nullptr) throw Error("libClp.so.1 has no Clp_" #name, "install Clp 1.17");
  DDL_CLP_FUNCTIONS(DDL_CLP_LOAD)
#undef DDL_CLP_LOAD
  return found;
}

}  // namespace

const Clp& clp() {
  static const Clp loaded = load();
  return loaded;
}

}  // namespace ddl
