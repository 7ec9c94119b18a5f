#include "runtime/process/temporary_run.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/file/file.hpp"
#include "runtime/process/fields.hpp"
#include "runtime/process/process_entry.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>

namespace troupe::runtime {
namespace {

/// Whether the folder is temporary and its front has ended.
bool is_orphaned(const run_folder& x) {
  const auto file = x.path() / temporary_marker;
  std::error_code failure;
  if (!std::filesystem::exists(file, failure))
    return false;
  const auto what = "'" + file.string() + "'";
  return !is_running(process_field(read_object(read_text(file), what), what));
}

void remove_whole(const run_folder& x) {
  std::error_code ignored;  // another ending process may remove it as well
  std::filesystem::remove_all(x.path(), ignored);
}

}  // namespace

void mark_temporary(const held_run_folder& x, const process_id& shown_by) {
  nlohmann::json out;
  put(out, shown_by);
  replace_file(x.path() / temporary_marker, json_text(out) + "\n");
}

// Removes this process's entry first, so that the later of two ending processes sees no other.
void leave_temporary(const run_folder& x) {
  try {
    if (!is_orphaned(x))
      return;
    bool needed = x.is_held();
    for (const auto& one : seen_processes(x, [](const std::string&) {}))
      if (one.entry.process == this_process())
        remove_entry(x, one.entry.name);
    for (const auto& one : seen_processes(x, [](const std::string&) {}))
      needed = needed || one.runs.value_or(true);
    if (!needed)
      remove_whole(x);
  } catch (const error&) {  // the folder is gone
  }
}

void remove_temporary_of_ended(const run_folder& x) {
  try {
    if (is_orphaned(x) && x.record().ended)
      remove_whole(x);
  } catch (const error&) {  // the folder is gone
  }
}

}  // namespace troupe::runtime
