#include "runtime/process/footprint.hpp"

#include "runtime/process/host_parts.hpp"
#include "runtime/process/segments.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <fmt/format.h>
#include <fstream>
#include <functional>
#include <sstream>
#include <sys/sem.h>
#include <thread>
#include <unistd.h>

namespace troupe::runtime {
namespace {

namespace fs = std::filesystem;

const fs::path shared_memory = "/dev/shm";

std::optional<pid_t> pid_in(const std::string& name) {
  pid_t out = 0;
  const char* const end = name.data() + name.size();
  const auto read = std::from_chars(name.data(), end, out);
  return read.ptr == end && read.ec == std::errc() ? std::optional(out) : std::nullopt;
}

/// Empty when the file cannot be read: the process has ended, or another user owns it.
std::string bytes_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

bool has_word(const std::string& environment, const std::string& word) {
  for (auto at = environment.find(word); at != std::string::npos;
       at = environment.find(word, at + 1)) {
    const auto end = at + word.size();
    if ((at == 0 || environment[at - 1] == '\0')
        && (end == environment.size() || environment[end] == '\0'))
      return true;
  }
  return false;
}

/// Inodes of all listening sockets in the network namespace of that process ("self").
std::set<std::string> listening_sockets(const std::string& whose) {
  constexpr const char* listens = "0A";
  std::set<std::string> out;
  for (const auto* table : {"tcp", "tcp6"}) {
    std::ifstream in(fmt::format("/proc/{}/net/{}", whose, table));
    std::string line;
    std::getline(in, line);
    while (std::getline(in, line)) {
      std::istringstream words(line);
      std::vector<std::string> cells;
      for (std::string cell; words >> cell;)
        cells.push_back(cell);
      constexpr std::size_t state = 3, inode = 9;
      if (cells.size() > inode && cells[state] == listens)
        out.insert(cells[inode]);
    }
  }
  return out;
}

std::set<std::string> sockets_of(pid_t pid) {
  constexpr std::string_view begin = "socket:[";
  std::set<std::string> out;
  std::error_code ignored;
  for (const auto& file : fs::directory_iterator(fmt::format("/proc/{}/fd", pid), ignored)) {
    const auto name = fs::read_symlink(file.path(), ignored).string();
    if (name.starts_with(begin))
      out.insert(name.substr(begin.size(), name.size() - begin.size() - 1));
  }
  return out;
}

/// Existing files below /dev/shm that the process has mapped.
std::set<fs::path> memory_of(pid_t pid) {
  std::set<fs::path> out;
  std::istringstream maps(bytes_of(fmt::format("/proc/{}/maps", pid)));
  std::error_code ignored;
  for (std::string line; std::getline(maps, line);)
    if (const auto at = line.find(shared_memory.string() + "/"); at != std::string::npos)
      if (const fs::path file = line.substr(at); fs::exists(file, ignored))
        out.insert(file);
  return out;
}

/// Passes on the rows of /proc/sysvipc/KIND, without the header.
void each_row(const char* kind, const std::function<void(const std::vector<long>&)>& take) {
  std::ifstream in(fmt::format("/proc/sysvipc/{}", kind));
  std::string line;
  std::getline(in, line);
  while (std::getline(in, line)) {
    std::istringstream words(line);
    std::vector<long> cells;
    for (long cell = 0; words >> cell;)
      cells.push_back(cell);
    take(cells);
  }
}

void add_system_v(const std::set<pid_t>& pids, std::vector<std::string>& to) {
  each_row("shm", [&](const auto& row) {
    constexpr std::size_t id = 1, creator = 4;
    if (row.size() > creator && pids.contains(pid_t(row[creator])))
      to.push_back(fmt::format("the System V shared memory {}", row[id]));
  });
  each_row("sem", [&](const auto& row) {
    constexpr std::size_t id = 1, count = 3;
    for (long i = 0; row.size() > count && i < row[count]; ++i)
      if (const int last = ::semctl(int(row[id]), int(i), GETPID);
          last > 0 && pids.contains(pid_t(last))) {
        to.push_back(fmt::format("the System V semaphore {}", row[id]));
        return;
      }
  });
}

bool any_file(const fs::path&) {
  return true;
}

bool is_partial(const fs::path& x) {
  return x.extension() == ".partial";
}

void add_files(std::vector<std::string>& to,
               const fs::path& folder,
               const std::function<bool(const fs::path&)>& wanted) {
  std::error_code ignored;
  for (const auto& file : fs::directory_iterator(folder, ignored))
    if (wanted(file.path()))
      to.push_back(fmt::format("the file '{}'", file.path().string()));
}

}  // namespace

std::vector<process_id> footprint::processes() const {
  std::vector<process_id> out;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/proc", ignored))
    if (const auto pid = pid_in(entry.path().filename().string()))
      if (has_word(bytes_of(entry.path() / "environ"), mark_))
        if (const auto facts = look_at_process(*pid); facts && facts->state != 'Z')
          out.push_back(facts->id);
  for (const auto& host : hosts_)
    for (const auto& one : processes_of_host(host.folder))
      if (std::find(out.begin(), out.end(), one) == out.end())
        out.push_back(one);
  return out;
}

/// Inode numbers are unique across network namespaces.
std::set<std::string> footprint::listening() const {
  auto out = listening_sockets("self");
  for (const auto& host : hosts_)
    out.merge(listening_sockets(std::to_string(host.node.pid)));
  return out;
}

void footprint::look() {
  const auto listens = listening();
  for (const auto& one : processes()) {
    pids_.insert(one.pid);
    for (const auto& socket : sockets_of(one.pid))
      if (listens.contains(socket))
        sockets_.insert(socket);
    memory_.merge(memory_of(one.pid));
  }
}

std::vector<std::string> footprint::left() const {
  std::vector<std::string> out;
  for (const auto& one : processes()) {
    auto command = bytes_of(fmt::format("/proc/{}/cmdline", one.pid));
    std::replace(command.begin(), command.end(), '\0', ' ');
    out.push_back(fmt::format("process {}: {}", one.pid, command));
  }
  const auto listens = listening();
  for (const auto& socket : sockets_)
    if (listens.contains(socket))
      out.push_back(fmt::format("a socket that listens (inode {})", socket));
  std::error_code ignored;
  for (const auto& file : memory_)
    if (fs::exists(file, ignored))
      out.push_back(fmt::format("the shared memory '{}'", file.string()));
  add_system_v(pids_, out);
  return out;
}

void footprint::kill_all() const {
  constexpr auto pause = std::chrono::milliseconds(10);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  for (auto some = processes(); !some.empty() && std::chrono::steady_clock::now() < end;
       some = processes()) {
    for (const auto& one : some)
      if (const auto alive = running_process::find(one))
        alive->signal(SIGKILL);
    std::this_thread::sleep_for(pause);
  }
}

std::vector<std::string> files_left(const fs::path& run,
                                    const fs::path& save,
                                    const fs::path& temporary) {
  std::vector<std::string> out;
  for (const auto& folder : {run / "sockets", run / "credentials", temporary})
    add_files(out, folder, any_file);
  for (const auto& folder : {run, run / "processes", save})
    add_files(out, folder, is_partial);
  return out;
}

std::vector<std::string> files_left_by_host(const fs::path& folder, const std::string& run_id) {
  std::vector<std::string> out;
  add_files(out, folder / "sockets", any_file);
  for (const auto& in : {folder, folder / "processes"})
    add_files(out, in, is_partial);
  add_files(out, folder / "runs", [&](const fs::path& x) {
    return x.filename().string().starts_with(run_id + ".");
  });
  return out;
}

std::vector<std::string> segments_left(const std::string& run_id) {
  std::vector<std::string> out;
  const auto prefix = segment_prefix(run_id).substr(1);
  std::error_code ignored;
  for (const auto& file : fs::directory_iterator(shared_memory, ignored))
    if (file.path().filename().string().starts_with(prefix))
      out.push_back(fmt::format("the shared memory '{}'", file.path().string()));
  return out;
}

}  // namespace troupe::runtime
