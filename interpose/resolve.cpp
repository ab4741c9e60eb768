// Finding the function behind ours. The order matters and was measured: mpi4py loads libmpi with RTLD_LOCAL after us,
// so RTLD_NEXT finds nothing there, although our wrapper was found first; then the caller's own scope has it; a
// tail-calling caller hides that too, then some loaded object must.
#include <link.h>
#include <string.h>
#include <sys/mman.h>

#include <initializer_list>

#include "core/dynamic_loading.h"
#include "interpose/wrapper.h"

namespace ddl {

Function g_functions[kMpiOpEnd];
__thread FortranCall ddl_fortran_call __attribute__((tls_model("initial-exec"))) = {nullptr, 0};

namespace {

/// `found` unless it is our own function, which dlsym may well return for a scope that starts with us.
void* not_ours(void* found) {
  Dl_info info, ours;
  if (!found || !dladdr(found, &info) || !dladdr(reinterpret_cast<void*>(&g_functions), &ours)) return found;
  return info.dli_fbase == ours.dli_fbase ? nullptr : found;
}

void* from_scope_of(const char* object, const char* name) {
  void* handle = dlopen(object, RTLD_LAZY | RTLD_NOLOAD);
  if (!handle) return nullptr;
  void* found = not_ours(dlsym(handle, name));
  dlclose(handle);
  return found;
}

/// The names of all loaded objects. Collected first and opened later: dlopen inside dl_iterate_phdr takes two loader
/// locks in the wrong order.
struct Names {
  char text[64 * 1024];
  size_t used;
};

int collect_name(dl_phdr_info* info, size_t, void* data) {
  Names* names = static_cast<Names*>(data);
  const size_t length = info->dlpi_name ? strlen(info->dlpi_name) + 1 : 1;
  if (length > 1 && names->used + length <= sizeof names->text) {
    memcpy(names->text + names->used, info->dlpi_name, length);
    names->used += length;
  }
  return 0;
}

void* from_any_object(const char* name) {
  void* pages = mmap(nullptr, sizeof(Names), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return nullptr;
  Names* names = static_cast<Names*>(pages);
  dl_iterate_phdr(collect_name, names);
  void* found = nullptr;
  for (size_t at = 0; at < names->used && !found; at += strlen(names->text + at) + 1)
    found = from_scope_of(names->text + at, name);
  munmap(pages, sizeof(Names));
  return found;
}

void* look_up(const char* name, const void* caller) {
  if (void* found = not_ours(dlsym(RTLD_NEXT, name))) return found;
  Dl_info info;
  if (caller && dladdr(caller, &info) && info.dli_fname) {
    if (void* found = from_scope_of(info.dli_fname, name)) return found;
  }
  return from_any_object(name);
}

}  // namespace

void* resolve(const char* name, const void* caller) { return &dlsym ? look_up(name, caller) : nullptr; }

void* resolve_mpi(const char* name, const void* caller) {
  if (void* found = resolve(name, caller)) return found;
  char profiling_name[128] = "P";
  strncat(profiling_name, name, sizeof profiling_name - 2);
  return resolve(profiling_name, caller);
}

bool is_in_mpi_library(const void* site) {
  Dl_info info;
  if (!&dladdr || !dladdr(site, &info) || !info.dli_fname) return false;
  const char* file = strrchr(info.dli_fname, '/');
  file = file ? file + 1 : info.dli_fname;
  for (const char* prefix : {"libmpi", "mca_", "libopen-", "libpmpi"}) {
    if (strncmp(file, prefix, strlen(prefix)) == 0) return true;
  }
  return false;
}

void* mpi_object(const char* name) {
  if (!&dlsym) return nullptr;
  // An executable may hold the copy that everybody uses. By its handle: what RTLD_DEFAULT finds stays loaded as long as
  // we do, and a job that closes its MPI library may open it again.
  void* program = dlopen(nullptr, RTLD_LAZY | RTLD_NOLOAD);
  void* found = program ? dlsym(program, name) : nullptr;
  if (program) dlclose(program);
  return found ? found : look_up(name, nullptr);
}

void forget_functions() {
  for (Function& function : g_functions) {
    __atomic_store_n(&function.mpi, static_cast<void*>(nullptr), __ATOMIC_RELAXED);
    __atomic_store_n(&function.pmpi, static_cast<void*>(nullptr), __ATOMIC_RELAXED);
  }
  for (void** real = ddl_fortran_real; real != ddl_fortran_real_end; ++real)
    __atomic_store_n(real, static_cast<void*>(nullptr), __ATOMIC_RELAXED);
}

}  // namespace ddl
