#include "actors/process/run_copy.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/file.hpp"
#include "runtime/process/arbiter.hpp"
#include "runtime/process/credentials.hpp"
#include "runtime/process/descriptor.hpp"
#include "runtime/process/run_succession.hpp"

#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace troupe::actors {
namespace {

namespace fs = std::filesystem;

runtime::run_record record_in(const messages::keep_run& x) {
  return runtime::read_run_record(x.record, "what the launcher says of its run");
}

runtime::run_folder folder_for(const fs::path& node, const messages::keep_run& x) {
  const auto record = record_in(x);
  const auto all = node / "runs";
  if (::mkdir(all.c_str(), S_IRWXU) != 0 && errno != EEXIST)
    throw runtime::io_error("cannot make '{}': {}", all.string(), runtime::system_message(errno));
  const auto path = all / fmt::format("{}.{}", record.id, x.incarnation);
  std::error_code failure;
  fs::remove_all(path, failure);  // of this run, when the node served it before
  if (failure)
    throw runtime::io_error("cannot remove '{}': {}", path.string(), failure.message());
  auto out = runtime::run_folder::copy(path, record);
  if (x.secret.empty())
    runtime::copy_credentials(runtime::run_folder::open(node).credentials(), out.credentials());
  else
    runtime::make_credentials(out.credentials(), record.id, x.secret);
  return out;
}

}  // namespace

run_copy::run_copy(const fs::path& node, const messages::keep_run& x)
    : folder_(folder_for(node, x)) {
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

void run_copy::keep(const messages::keep_ledger& x) const {
  const auto file = folder_.ledger();
  const runtime::descriptor to(
      ::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR));
  bool written = bool(to) && ::ftruncate(to.number(), off_t(x.at)) == 0;
  for (std::string_view rest = x.lines; written && !rest.empty();) {
    const auto size = ::pwrite(
        to.number(), rest.data(), rest.size(), off_t(x.at + x.lines.size() - rest.size()));
    written = size > 0;
    if (written)
      rest.remove_prefix(std::size_t(size));
  }
  if (!written)
    throw runtime::io_error("cannot write '{}': {}", file.string(), runtime::system_message(errno));
}

std::string run_copy::why_not() const {
  const runtime::arbiter by(told_.save, record_in(told_).id);
  std::error_code failure;
  if (!by.is_seen())
    return fmt::format(
        "it does not see '{}', which decides who goes on: `checkpoints.save` has to be a folder "
        "that all hosts share",
        by.folder().string());
  if (!fs::is_directory(told_.directory, failure))
    return fmt::format("it has no folder '{}', where the command was started", told_.directory);
  return {};
}

void run_copy::remove() const {
  std::error_code ignored;
  fs::remove_all(folder_.path(), ignored);
  fs::remove(folder_.path().parent_path(), ignored);
}

}  // namespace troupe::actors
