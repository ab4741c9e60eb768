#include "workloads/allreduce/sweep/openmpi.h"

#include <stdexcept>

namespace ddl::allreduce {

std::optional<ControlVariable> ControlVariable::find(const char* name) {
  int index = 0;
  if (MPI_T_cvar_get_index(name, &index) != MPI_SUCCESS) return {};
  int name_length = 0;
  int description_length = 0;
  int verbosity = 0;
  int bind = 0;
  int scope = 0;
  ControlVariable variable;
  MPI_T_enum names = MPI_T_ENUM_NULL;
  if (MPI_T_cvar_get_info(index, nullptr, &name_length, &verbosity, &variable.type_, &names, nullptr,
                          &description_length, &bind, &scope) != MPI_SUCCESS) {
    return {};
  }
  const bool number = variable.type_ == MPI_INT || variable.type_ == MPI_UNSIGNED || variable.type_ == MPI_C_BOOL;
  int count = 0;
  if (!number || MPI_T_cvar_handle_alloc(index, nullptr, &variable.handle_, &count) != MPI_SUCCESS || count != 1)
    return {};
  int values = 0;
  char text[256];
  int length = sizeof text;
  if (names != MPI_T_ENUM_NULL && MPI_T_enum_get_info(names, &values, text, &length) == MPI_SUCCESS) {
    for (int i = 0; i < values; ++i) {
      int value = 0;
      length = sizeof text;
      if (MPI_T_enum_get_item(names, i, &value, text, &length) == MPI_SUCCESS)
        variable.values_.push_back({text, value});
    }
  }
  return variable;
}

ControlVariable::~ControlVariable() {
  if (handle_ != MPI_T_CVAR_HANDLE_NULL) MPI_T_cvar_handle_free(&handle_);
}

ControlVariable::ControlVariable(ControlVariable&& other) noexcept
    : handle_(std::exchange(other.handle_, MPI_T_CVAR_HANDLE_NULL)),
      type_(other.type_),
      values_(std::move(other.values_)) {}

int ControlVariable::read() const {
  int number = 0;
  bool truth = false;
  MPI_T_cvar_read(handle_, type_ == MPI_C_BOOL ? static_cast<void*>(&truth) : &number);
  return type_ == MPI_C_BOOL ? truth : number;
}

bool ControlVariable::write(int value) {
  const bool truth = value != 0;
  const void* source = type_ == MPI_C_BOOL ? static_cast<const void*>(&truth) : &value;
  return MPI_T_cvar_write(handle_, source) == MPI_SUCCESS && read() == value;
}

namespace {

constexpr int kNotForced = 0;

/** Components that would be asked before `tuned`. */
std::string preferred_components() {
  const std::optional<ControlVariable> tuned = ControlVariable::find("coll_tuned_priority");
  std::string names;
  for (const char* component : {"han", "adapt", "sm", "xhc", "acoll", "hcoll", "ucc"}) {
    const std::optional<ControlVariable> other =
        ControlVariable::find(("coll_" + std::string(component) + "_priority").c_str());
    if (tuned && other && other->read() > tuned->read()) names.append(names.empty() ? "" : ", ").append(component);
  }
  return names;
}

}  // namespace

OpenMpi::OpenMpi()
    : algorithm_(ControlVariable::find("coll_tuned_allreduce_algorithm")),
      segment_(ControlVariable::find("coll_tuned_allreduce_algorithm_segmentsize")) {
  const std::optional<ControlVariable> dynamic = ControlVariable::find("coll_tuned_use_dynamic_rules");
  if (!algorithm_ || !segment_ || !dynamic) {
    missing_ = "the MPI library has no variable coll_tuned_allreduce_algorithm: only Open MPI has";
  } else if (dynamic->read() == 0) {
    missing_ = "coll_tuned_use_dynamic_rules is switched off: Open MPI would ignore what is forced";
  } else if (!algorithm_->write(kNotForced)) {
    missing_ = "coll_tuned_allreduce_algorithm cannot be written";
  }
  int usable = missing_.empty() ? 1 : 0;
  MPI_Allreduce(MPI_IN_PLACE, &usable, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  if (!usable && missing_.empty()) missing_ = "on some rank coll_tuned_allreduce_algorithm cannot be written";
  const std::string others = preferred_components();
  if (!others.empty()) {
    caveat_ = "Open MPI asks component " + others +
              " before tuned: where it answers, an algorithm that is forced is not used";
  }
}

std::vector<ControlVariable::Value> OpenMpi::algorithms() const {
  std::vector<ControlVariable::Value> result;
  if (!missing_.empty()) return result;
  for (const ControlVariable::Value& value : algorithm_->values()) {
    if (value.number != kNotForced) result.push_back(value);
  }
  return result;
}

Communicator OpenMpi::bound_to(const ControlVariable::Value& algorithm, std::size_t segment_bytes) {
  const int segment_before = segment_->read();
  if (!algorithm_->write(algorithm.number) ||
      (segment_bytes > 0 && !segment_->write(static_cast<int>(segment_bytes)))) {
    throw std::runtime_error("Open MPI's algorithm " + algorithm.name + " was set but does not read back");
  }
  Communicator communicator(MPI_COMM_WORLD);
  if (!algorithm_->write(kNotForced) || !segment_->write(segment_before)) {
    throw std::runtime_error("Open MPI's algorithm " + algorithm.name + " cannot be taken back");
  }
  return communicator;
}

}  // namespace ddl::allreduce
