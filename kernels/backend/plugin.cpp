#include "kernels/backend/plugin.hpp"

#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <vector>

namespace troupe::kernels {

namespace {

/// Where plug-ins may lie, the first first.
std::vector<std::filesystem::path> folders() {
  if (const char* const named = std::getenv("TROUPE_PLUGINS"); named != nullptr && *named != 0)
    return {named};
  std::vector<std::filesystem::path> out;
  std::error_code failed;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", failed);
  if (!failed) {
    out.push_back(program.parent_path());
    out.push_back(program.parent_path().parent_path() / "lib" / "troupe");
  }
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
  reason_ = file_of(name) + " is not there: this build of troupe was made without it (looked in "
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
    throw std::logic_error("PLUGIN-1: '" + path_ + "' has the function that is asked for: " + name);
  return found;
}

}  // namespace troupe::kernels
