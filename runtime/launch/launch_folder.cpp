#include "runtime/launch/launch_folder.hpp"

#include "runtime/core/error.hpp"
#include "runtime/file/file.hpp"
#include "runtime/process/credentials.hpp"
#include "runtime/process/host_address.hpp"
#include "runtime/process/run_folder.hpp"

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sys/stat.h>
#include <unistd.h>

namespace troupe::runtime {
namespace {

namespace fs = std::filesystem;

constexpr const char *address_file = "meeting", *failure_file = "failure",
                     *credential_folder = "credentials", *hidden = ".new",
                     *shared_prefix = ".launch-";

std::string private_prefix() {
  return fmt::format("troupe-launch-{}-", ::geteuid());
}

/// False: there is no such folder.
bool is_own_folder(const fs::path& path) {
  struct stat about = {};
  if (::lstat(path.c_str(), &about) != 0) {
    if (errno == ENOENT)
      return false;
    throw io_error("cannot look at the folder '{}': {}", path.string(), system_message(errno));
  }
  if (!S_ISDIR(about.st_mode) || about.st_uid != ::geteuid()
      || (about.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    throw input_error(
        "cannot use '{}' for this launch: it is not a folder, or others own it or may enter it; "
        "remove it",
        path.string());
  return true;
}

/// Network file systems remember for a while that a name is missing, until the folder is read.
void look_again(const fs::path& folder) {
  std::error_code ignored;
  for (const auto& one : fs::directory_iterator(folder, ignored)) {
    static_cast<void>(one);
    return;
  }
}

fs::path hidden_name(const fs::path& path) {
  make_folder(path.parent_path());
  return path.parent_path() / (path.filename().string() + hidden);
}

}  // namespace

launch_folder::launch_folder(const fs::path& path, bool insecure)
    : path_(path),
      hidden_(hidden_name(path)),
      insecure_(insecure),
      lock_(path, fmt::format("start the launch of '{}'", path.string())) {
  std::error_code ignored;
  for (const auto& left : {path_, hidden_})
    if (is_own_folder(left))
      fs::remove_all(left, ignored);
  make_own_folder(hidden_);
  if (!insecure)
    make_credentials(hidden_ / credential_folder, path.filename().string());
}

launch_folder::~launch_folder() {
  std::error_code ignored;
  fs::remove_all(is_published_ ? path_ : hidden_, ignored);
}

fs::path launch_folder::credentials() const {
  if (insecure_)
    return {};
  return (is_published_ ? path_ : hidden_) / credential_folder;
}

void launch_folder::publish(const std::string& address, std::uint16_t port) {
  publish_file(address_file, fmt::format("{}:{}\n", address, port));
}

void launch_folder::publish_failure(const std::string& why) {
  publish_file(failure_file, why);
}

void launch_folder::publish_file(const char* name, const std::string& text) {
  replace_file(hidden_ / name, text);
  std::error_code failure;
  fs::rename(hidden_, path_, failure);
  if (failure)
    throw io_error("cannot create the folder '{}' of this launch: {}; give another folder",
                   path_.string(),
                   failure.message());
  is_published_ = true;
}

void remove_left_launch_folders(const fs::path& path) {
  std::set<fs::path> left;
  std::error_code ignored;
  for (const auto& one : fs::directory_iterator(path.parent_path(), ignored)) {
    auto found = one.path();
    if (found.extension() == hidden)
      found.replace_extension();
    const auto name = found.filename().string();
    if (found != path && (name.starts_with(shared_prefix) || name.starts_with(private_prefix())))
      left.insert(found);
  }
  for (const auto& one : left)
    try {
      const launch_folder mine(one, true);  // replaces it by its own, and removes that
    } catch (const error&) {                // such a launch lives, or it is another user's
    }
}

std::optional<published_meeting> find_launch_folder(const fs::path& path, bool insecure) {
  look_again(path.parent_path());
  if (!is_own_folder(path))
    return std::nullopt;
  std::error_code ignored;
  if (fs::exists(path / failure_file, ignored))
    return published_meeting{.failure = read_text(path / failure_file)};
  std::ifstream file(path / address_file);
  std::string line;
  if (!std::getline(file, line))
    return std::nullopt;
  const auto where = read_host_and_port(line);
  published_meeting out{.address = where.host, .port = where.port, .credentials = {}};
  if (!insecure)
    out.credentials = path / credential_folder;
  return out;
}

fs::path launch_folder_path(const fs::path& shared, const std::string& id) {
  constexpr std::size_t longest = 100;
  std::string name;
  for (const char c : id.substr(0, longest))
    name += std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-' ? c : '_';
  if (!shared.empty())
    return fs::absolute(shared) / (shared_prefix + name);
  return fs::temp_directory_path() / (private_prefix() + name);
}

}  // namespace troupe::runtime
