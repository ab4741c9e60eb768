#include "collectors/cupti.h"

#include <link.h>
#include <stdio.h>
#include <string.h>

#include <initializer_list>

#include "core/dynamic_loading.h"
#include "interpose/process.h"

namespace ddl::cupti {

namespace {

constexpr size_t kPathBytes = 1024;
constexpr const char* kOldNames[] = {"libcupti.so.11.8", "libcupti.so.11.7", "libcupti.so.11.6",
                                     "libcupti.so.11.5", "libcupti.so.11.4", "libcupti.so.11.3",
                                     "libcupti.so.11.2", "libcupti.so.11.1", "libcupti.so.11.0"};

/// Seen from the folder of libcudart: the same one, pip's layout, the toolkit's.
constexpr const char* kFolders[] = {"", "../../cuda_cupti/lib/", "../extras/CUPTI/lib64/",
                                    "../../../extras/CUPTI/lib64/"};

struct Loaded {
  char cupti[kPathBytes];
  char runtime_folder[kPathBytes];  ///< ends with a slash; "": not loaded
};
Loaded g_loaded;  // not on the stack, which may be small

const char* file_of(const char* path) {
  const char* slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

int look_at(dl_phdr_info* info, size_t, void*) {
  const char* path = info->dlpi_name ? info->dlpi_name : "";
  const char* file = file_of(path);
  if (strlen(path) >= kPathBytes) return 0;
  if (strncmp(file, "libcupti.so", 11) == 0) strcpy(g_loaded.cupti, path);
  if (strncmp(file, "libcudart.so", 12) == 0) {
    memcpy(g_loaded.runtime_folder, path, static_cast<size_t>(file - path));
    g_loaded.runtime_folder[file - path] = 0;
  }
  return 0;
}

/// Major version of CUDA that the driver supports; 0: unknown.
int driver_major() {
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (!driver) return 0;
  const auto get = reinterpret_cast<int (*)(int*)>(dlsym(driver, "cuDriverGetVersion"));
  int version = 0;
  const bool known = get && get(&version) == 0;
  dlclose(driver);
  return known ? version / 1000 : 0;
}

/// The libraries that go with a driver of this version, best first; "" ends.
const char* name_of(int major, int number, char (&text)[32]) {
  const int newest = major >= 11 ? major : 13;
  if (number < newest - 11) {
    snprintf(text, sizeof text, "libcupti.so.%d", newest - number);
    return text;
  }
  const size_t old = static_cast<size_t>(number - (newest - 11));
  return old < sizeof kOldNames / sizeof *kOldNames ? kOldNames[old] : "";
}

/// In one folder ("": where the loader looks), those that the driver may have.
void* open_version(const char* folder, const char* between, int major) {
  char name[32], path[kPathBytes + 64];
  void* found = nullptr;
  for (int i = 0; !found; ++i) {
    const char* file = name_of(major, i, name);
    if (!*file) break;
    snprintf(path, sizeof path, "%s%s%s", folder, between, file);
    found = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
  }
  return found;
}

void* open_any() {
  if (const char* given = setting("DDL_CUPTI")) return dlopen(given, RTLD_LAZY | RTLD_LOCAL);
  g_loaded = {};
  dl_iterate_phdr(look_at, nullptr);
  if (g_loaded.cupti[0]) return dlopen(g_loaded.cupti, RTLD_LAZY | RTLD_LOCAL);
  const int major = driver_major();
  void* found = open_version("", "", major);
  for (const char* folder : kFolders) {
    if (!found && g_loaded.runtime_folder[0]) found = open_version(g_loaded.runtime_folder, folder, major);
  }
  for (const char* folder : {"/usr/local/cuda/extras/CUPTI/lib64/", "/usr/local/cuda/lib64/"}) {
    if (!found) found = open_version(folder, "", major);
  }
  // of any version: maybe one that the driver is too old for
  return found ? found : dlopen("libcupti.so", RTLD_LAZY | RTLD_LOCAL);
}

}  // namespace

const char* open_library(Functions& functions, char* path, size_t path_bytes) {
  if (!&dlsym) return "the program has no libdl";
  void* library = open_any();
  if (!library) return "libcupti was not found (DDL_CUPTI names it)";
#define DDL_CUPTI_LOOK_UP(name, member, parameters) \
  functions.member = reinterpret_cast<decltype(functions.member)>(dlsym(library, "cupti" #name));
  DDL_CUPTI_FUNCTIONS(DDL_CUPTI_LOOK_UP)
#undef DDL_CUPTI_LOOK_UP
  Dl_info info = {};
  dladdr(reinterpret_cast<const void*>(functions.get_version), &info);
  snprintf(path, path_bytes, "%s", info.dli_fname ? info.dli_fname : "libcupti");
  return functions.graph_node_id && functions.next_record && functions.subscribe ? nullptr
                                                                                 : "libcupti is older than CUDA 11.0";
}

}  // namespace ddl::cupti
