#include "actors/process/run_copy.hpp"

#include "runtime/core/error.hpp"
#include "runtime/file/file.hpp"
#include "runtime/process/arbiter.hpp"
#include "runtime/process/credentials.hpp"
#include "runtime/process/descriptor.hpp"
#include "runtime/process/run_succession.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <string_view>
#include <unistd.h>
#include <utility>

namespace troupe::actors {
namespace {

namespace fs = std::filesystem;

runtime::run_record record_in(const messages::keep_run& x) {
  return runtime::read_run_record(x.record, "what the launcher says of its run");
}

fs::path new_folder_for(const fs::path& copies, const std::string& run) {
  std::error_code failure;
  for (int n = 0;; ++n)
    if (auto path = copies / fmt::format("{}.{}", run, n); !fs::exists(path, failure))
      return path;
}

runtime::run_folder folder_for(const fs::path& copies,
                               const fs::path& node,
                               const messages::keep_run& x) {
  const auto record = record_in(x);
  runtime::make_own_folder(copies);
  auto out = runtime::run_folder::copy(new_folder_for(copies, record.id), record);
  if (x.secret.empty())
    runtime::copy_credentials(runtime::run_folder::open(node).credentials(), out.credentials());
  else
    runtime::make_credentials(out.credentials(), record.id, x.secret);
  return out;
}

}  // namespace

run_copy::run_copy(const fs::path& copies, const fs::path& node, const messages::keep_run& x)
    : folder_(folder_for(copies, node, x)), begun_with_(x.ledger) {
  keep(x);
}

void run_copy::keep(const messages::keep_run& x) {
  runtime::write_order(folder_, x.order);
  runtime::write_description(folder_, x.description);
  runtime::write_rendezvous(folder_,
                            {.incarnation = x.incarnation,
                             .address = x.address,
                             .port = x.port,
                             .places = x.places,
                             .round = x.round});
  told_ = x;
}

std::uint64_t run_copy::keep(const messages::keep_ledger& x) {
  if (x.at > ledger_bytes_)
    return ledger_bytes_;  // a piece was lost; it will be sent again
  const auto file = folder_.ledger();
  const runtime::descriptor to(
      ::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR));
  bool written = bool(to) && ::ftruncate(to.number(), off_t(x.at)) == 0;
  if (written)
    ledger_bytes_ = x.at;
  for (std::string_view rest = x.lines; written && !rest.empty();) {
    const auto size = ::pwrite(to.number(), rest.data(), rest.size(), off_t(ledger_bytes_));
    written = size > 0;
    if (!written)
      break;
    ledger_bytes_ += std::uint64_t(size);
    rest.remove_prefix(std::size_t(size));
  }
  if (!written)
    throw runtime::io_error("cannot write '{}': {}", file.string(), runtime::system_message(errno));
  return ledger_bytes_;
}

bool run_copy::remove_unless_used() const {
  std::error_code ignored;
  try {
    if (folder_.is_held())
      return false;
    const auto now = runtime::find_rendezvous(folder_);
    if (folder_.record().ended || (now && now->incarnation > told_.incarnation))
      return true;
  } catch (const runtime::error&) {  // the copy was removed
  }
  fs::remove_all(folder_.path(), ignored);
  return true;
}

std::string why_not_here(const messages::keep_run& x, const fs::path& copy) {
  const runtime::arbiter by(x.save, record_in(x).id);
  std::error_code failure;
  if (!by.is_seen())
    return fmt::format(
        "it does not see '{}', which decides which host continues the run: `checkpoints.save` must "
        "be a folder that all hosts share",
        by.folder().string());
  if (!fs::is_directory(x.directory, failure))
    return fmt::format("it has no folder '{}', in which the command was started", x.directory);
  by.prepare(runtime::contender_of(copy));
  return {};
}

void resign_here(const messages::keep_run& x, const fs::path& copy) {
  const runtime::arbiter by(x.save, record_in(x).id);
  by.resign_all(x.round, runtime::contender_of(copy));
}

}  // namespace troupe::actors
