#include "kernels/backend/plugin.hpp"

#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <link.h>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <vector>

namespace troupe::kernels {

namespace {

/// Path of the running program; empty if /proc is missing.
std::filesystem::path program() {
  std::error_code failed;
  auto out = std::filesystem::read_symlink("/proc/self/exe", failed);
  return failed ? std::filesystem::path() : out;
}

/// The folders in the program's RUNPATH or RPATH. In an installed package they include the folder
/// of its plug-ins (cmake/troupe-config.cmake.in).
std::vector<std::filesystem::path> run_path() {
  std::vector<std::filesystem::path> out;
  void* const self = ::dlopen(nullptr, RTLD_LAZY);
  const link_map* map = nullptr;
  if (self == nullptr || ::dlinfo(self, RTLD_DI_LINKMAP, &map) != 0)
    return out;
  const char* texts = nullptr;
  std::size_t at = 0;
  for (const auto* entry = map->l_ld; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_STRTAB)
      texts = reinterpret_cast<const char*>(entry->d_un.d_ptr);
    if (entry->d_tag == DT_RUNPATH || entry->d_tag == DT_RPATH)
      at = entry->d_un.d_val;
  }
  if (texts == nullptr || at == 0)
    return out;
  const std::string origin = "$ORIGIN", home = program().parent_path().string();
  std::istringstream folders(texts + at);
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (folder.starts_with(origin))
      folder.replace(0, origin.size(), home);
    while (folder.ends_with('/'))
      folder.pop_back();
    out.emplace_back(folder);
  }
  return out;
}

/// Folders to search, in order.
std::vector<std::filesystem::path> folders() {
  if (const char* const named = std::getenv("TROUPE_PLUGINS"); named != nullptr && *named != 0)
    return {named};
  std::vector<std::filesystem::path> out;
  if (const auto mine = program(); !mine.empty()) {
    out.push_back(mine.parent_path());
    out.push_back(mine.parent_path().parent_path() / "lib" / "troupe");
  }
  for (auto& folder : run_path())
    if (folder.filename() == "troupe")
      out.push_back(std::move(folder));
  return out;
}

std::string file_of(const std::string& name) {
  return "libtroupe_" + name + ".so";
}

}  // namespace

std::string plugin::find(const std::string& name) {
  std::error_code failed;
  for (const auto& folder : folders()) {
    auto path = folder / file_of(name);
    if (std::filesystem::exists(path, failed))
      return path.string();
  }
  return "";
}

const plugin& plugin::open(const std::string& name) {
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<plugin>> opened;
  const std::lock_guard lock(mutex);
  auto& found = opened[name];
  if (found == nullptr)
    found.reset(new plugin(name));
  return *found;
}

plugin::plugin(const std::string& name) {
  if (const auto path = find(name); !path.empty()) {
    if (!try_to_open(path))
      handle_ = nullptr;
    return;
  }
  std::string tried;
  for (const auto& folder : folders())
    tried += (tried.empty() ? "'" : ", '") + folder.string() + "'";
  reason_ = file_of(name) + " was not found: this build of troupe has no such plug-in (searched "
            + tried + ")";
}

bool plugin::try_to_open(const std::string& path) {
  path_ = path;
  handle_ = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle_ == nullptr) {
    reason_ = "'" + path + "' cannot be opened: " + ::dlerror();
    return false;
  }
  using says = const char*();
  auto* const build = reinterpret_cast<says*>(::dlsym(handle_, "troupe_plugin_build"));
  if (build == nullptr || std::strcmp(build(), build_of_plugins()) != 0) {
    reason_ = "'" + path + "' is of another build of troupe ("
              + (build == nullptr ? "it does not say which" : build()) + ", this is "
              + build_of_plugins() + ")";
    return false;
  }
  return true;
}

void* plugin::symbol(const char* name) const {
  void* const found = handle_ == nullptr ? nullptr : ::dlsym(handle_, name);
  if (found == nullptr)
    throw std::logic_error("PLUGIN-1: '" + path_ + "' has the requested function: " + name);
  return found;
}

}  // namespace troupe::kernels
