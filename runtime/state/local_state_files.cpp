#include "runtime/state/local_state_files.hpp"

#include "runtime/core/cancel.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/json_reader.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/file/file.hpp"
#include "runtime/file/file_reader.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>
#include <utility>

namespace troupe::runtime {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* local_format = "troupe-local-state";
constexpr std::int64_t local_format_version = 1;
constexpr const char* local_manifest = "manifest.json";
constexpr std::string_view step_prefix = "step-", process_prefix = "process-";
constexpr std::size_t slice = std::size_t{8} << 20;
constexpr std::size_t seal_digits = 64;

template <class Number>
std::optional<Number> number_behind(std::string_view prefix, const std::string& name) {
  Number x = {};
  const auto* const end = name.data() + name.size();
  if (!name.starts_with(prefix) || std::from_chars(name.data() + prefix.size(), end, x).ptr != end)
    return std::nullopt;
  return x;
}

std::string file_of_rank(int rank) {
  return fmt::format("rank-{:05}.state", rank);
}

void remove_step(const fs::path& path) {
  std::error_code failure;
  fs::remove_all(path, failure);
  if (failure)
    throw io_error("cannot remove '{}': {}", path.string(), failure.message());
}

int open_writer_lock(const fs::path& folder, int process) {
  return ::open((folder / fmt::format(".{}.lock", folder_of_process(process))).c_str(),
                O_RDWR | O_CREAT | O_CLOEXEC,
                0644);
}

std::string seal_of(std::string_view text) {
  sha256 hash;
  hash.add(text.data(), text.size());
  return hash.hex();
}

json json_of(const std::map<std::string, digest>& x) {
  json out = json::object();
  for (const auto& [name, value] : x)
    out[name] = to_string(value);
  return out;
}

/// A list only for a parameter with several.
json json_of(const std::multimap<std::string, digest>& x) {
  json out = json::object();
  for (const auto& [name, value] : x) {
    auto& at = out[name];
    if (at.is_string())
      at = json::array({at});
    if (at.is_array())
      at.push_back(to_string(value));
    else
      at = to_string(value);
  }
  return out;
}

std::uint64_t half_of(std::string_view digits, const std::string& where) {
  std::uint64_t out = 0;
  const auto* const end = digits.data() + digits.size();
  if (digits.size() != 16 || std::from_chars(digits.data(), end, out, 16).ptr != end)
    throw input_error("{}: a digest should be 32 hexadecimal digits", where);
  return out;
}

digest digest_from(const json& x, const std::string& where) {
  const auto text = x.is_string() ? x.get<std::string>() : std::string();
  if (text.size() != 32)
    throw input_error("{}: a digest should be 32 hexadecimal digits", where);
  return {half_of(std::string_view(text).substr(0, 16), where),
          half_of(std::string_view(text).substr(16), where)};
}

std::map<std::string, digest> digests_from(const json& object,
                                           const char* key,
                                           const std::string& where) {
  std::map<std::string, digest> out;
  for (const auto& [name, x] : object_member(object, key, where).items())
    out[name] = digest_from(x, where);
  return out;
}

std::multimap<std::string, digest> copies_from(const json& object, const std::string& where) {
  std::multimap<std::string, digest> out;
  for (const auto& [name, x] : object_member(object, "copies", where).items())
    for (const auto& one : x.is_array() ? x : json::array({x}))
      out.emplace(name, digest_from(one, where));
  return out;
}

/// Writes the arrays of a rank into one file.
class arrays_file {
 public:
  arrays_file(const fs::path& path, const std::atomic<bool>& stop) : to_(path), stop_(stop) {}

  std::string add(const tensor& x) {
    digester hash;
    const auto* const bytes = x.raw();
    for (std::size_t at = 0; at < x.bytes(); at += slice) {
      if (stop_)
        throw cancelled();
      const auto n = std::min(slice, x.bytes() - at);
      hash.add(bytes + at, n);
      to_.write(bytes + at, n);
    }
    return to_string(hash.result());
  }
  std::size_t commit() {
    to_.commit();
    return to_.size();
  }

 private:
  file_writer to_;
  const std::atomic<bool>& stop_;
};

json write_rank(const fs::path& folder,
                int rank,
                const rank_state& x,
                const std::atomic<bool>& stop) {
  arrays_file file(folder / file_of_rank(rank), stop);
  json chunks = json::array();
  for (const auto& [id, part] : x.parts) {
    json hashes = json::array();
    for (const auto& one : part.weights)
      hashes.push_back(file.add(one));
    hashes.push_back(file.add(part.kept));
    json own = json::array();
    for (const auto& [begin, end] : part.own_weights)
      own.push_back(json::array({begin, end}));
    chunks.push_back({{"chunk", value(id)},
                      {"elements", part.elements},
                      {"own_weights", std::move(own)},
                      {"kept", part.kept.size()},
                      {"xxh3", std::move(hashes)}});
  }
  const auto bytes = file.commit();
  return {{"rank", rank},
          {"file", file_of_rank(rank)},
          {"bytes", bytes},
          {"chunks", std::move(chunks)},
          {"own", json_of(x.digests.own)},
          {"copies", json_of(x.digests.copies)}};
}

json read_local_manifest(const fs::path& step) {
  const auto path = step / local_manifest;
  const auto where = fmt::format("'{}'", path.string());
  const auto text = read_text(path);
  const std::string_view all = text;
  if (all.size() < seal_digits + 1 || all[seal_digits] != '\n'
      || seal_of(all.substr(seal_digits + 1)) != all.substr(0, seal_digits))
    throw input_error("{} is damaged: it does not match the SHA-256 at its beginning", where);
  auto out = parse_json(all.substr(seal_digits + 1), where);
  if (string_member(out, "format", where) != local_format
      || count_member(out, "format_version", where) != local_format_version)
    throw input_error(
        "{} is not a manifest of local states of version {}", where, local_format_version);
  if (!member(out, "ranks", where).is_array())
    throw input_error("{}: 'ranks' should be a list", where);
  return out;
}

tensor read_array(file_reader& from, std::int64_t elements, const json& hash) {
  const auto where = fmt::format("'{}'", from.path().string());
  if (elements < 0 || std::uint64_t(elements) > (from.size() - from.at()) / sizeof(float))
    throw input_error("{} is shorter than its manifest says", where);
  const auto bytes = std::uint64_t(elements) * sizeof(float);
  memory_pool pool;
  tensor out(pool.allocate(std::size_t(bytes)), dtype::f32, {elements});
  digester found;
  for (std::size_t at = 0; at < bytes;) {
    const auto n = from.read(out.raw() + at, std::min<std::size_t>(slice, bytes - at));
    found.add(out.raw() + at, n);
    at += n;
  }
  if (found.result() != digest_from(hash, where))
    throw input_error("{} is damaged: an array does not match its hash in the manifest", where);
  return out;
}

rank_state::part read_chunk(file_reader& from, const json& told) {
  const auto where = fmt::format("the manifest beside '{}'", from.path().string());
  rank_state::part out{.elements = count_member(told, "elements", where)};
  const auto& own = member(told, "own_weights", where);
  const auto& hashes = member(told, "xxh3", where);
  if (!own.is_array() || !hashes.is_array() || hashes.size() != own.size() + 1)
    throw input_error("{}: the numbers of arrays and hashes differ", where);
  for (std::size_t i = 0; i < own.size(); ++i) {
    const auto begin
        = own[i].is_array() && own[i].size() == 2 ? whole_number_in(own[i][0]) : std::nullopt;
    const auto end = begin ? whole_number_in(own[i][1]) : std::nullopt;
    if (!end || *begin < 0 || *end < *begin || *end > out.elements)
      throw input_error("{}: 'own_weights' should be within its elements", where);
    out.own_weights.emplace_back(*begin, *end);
    out.weights.push_back(read_array(from, *end - *begin, hashes[i]));
  }
  out.kept = read_array(from, count_member(told, "kept", where), hashes.back());
  return out;
}

}  // namespace

std::string folder_of_process(int process) {
  return fmt::format("{}{}", process_prefix, process);
}

std::string folder_of_step(std::uint64_t iteration) {
  return fmt::format("{}{:07}", step_prefix, iteration);
}

std::optional<int> process_of_folder(const std::string& name) {
  return number_behind<int>(process_prefix, name);
}

std::optional<std::uint64_t> step_of_folder(const std::string& name) {
  return number_behind<std::uint64_t>(step_prefix, name);
}

local_writer_lock::~local_writer_lock() {
  if (descriptor_ >= 0)
    ::close(descriptor_);
}

void local_writer_lock::take(const fs::path& folder, int process) {
  descriptor_ = open_writer_lock(folder, process);
  if (descriptor_ < 0)
    throw io_error("cannot open the lock of process {}'s states in '{}': {}",
                   process,
                   folder.string(),
                   system_message(errno));
  while (::flock(descriptor_, LOCK_EX) != 0 && errno == EINTR) {
  }
}

bool local_writer_lock::try_take(const fs::path& folder, int process) {
  descriptor_ = open_writer_lock(folder, process);
  return descriptor_ >= 0 && ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0;
}

namespace {

// If the file system can exchange names, the older folder of that step keeps its name until the new
// one takes it: it may be the only step that all processes have.
void give_name_of_step(const fs::path& aside, const fs::path& target) {
  if (::renameat2(AT_FDCWD, aside.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0) {
    sync_folder(target.parent_path());
    return remove_step(aside);
  }
  if (errno != ENOENT)
    remove_step(target);
  std::error_code failure;
  fs::rename(aside, target, failure);
  if (failure)
    throw io_error("cannot rename '{}': {}", aside.string(), failure.message());
}

}  // namespace

void write_step(const fs::path& in_process, const step_to_store& x, const std::atomic<bool>& stop) {
  const auto name = folder_of_step(x.iteration);
  const auto aside = in_process / fmt::format(".{}.partial", name);
  make_folder(in_process);
  remove_step(aside);
  try {
    make_folder(aside);
    json manifest = {{"format", local_format},
                     {"format_version", local_format_version},
                     {"process", x.process},
                     {"iteration", x.iteration},
                     {"ranks", json::array()}};
    for (const auto& [rank, state] : x.states)
      manifest["ranks"].push_back(write_rank(aside, rank, *state, stop));
    const auto text = json_text(manifest, 1) + "\n";
    write_text(aside / local_manifest, seal_of(text) + "\n" + text);
    give_name_of_step(aside, in_process / name);
    sync_folder(in_process);  // LOCAL-1
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(aside, ignored);
    throw;
  }
}

stored_step look_at_step(const fs::path& step) {
  const auto manifest = read_local_manifest(step);
  const auto where = fmt::format("'{}'", (step / local_manifest).string());
  stored_step out{.process = int(count_member(manifest, "process", where)),
                  .iteration = std::uint64_t(count_member(manifest, "iteration", where))};
  for (const auto& x : manifest["ranks"])
    out.own[int(count_member(x, "rank", where))] = digests_from(x, "own", where);
  return out;
}

rank_state read_rank(const fs::path& step, int rank) {
  const auto manifest = read_local_manifest(step);
  const auto where = fmt::format("'{}'", (step / local_manifest).string());
  for (const auto& x : manifest["ranks"]) {
    if (count_member(x, "rank", where) != rank)
      continue;
    rank_state out{.digests = {digests_from(x, "own", where), copies_from(x, where)}};
    file_reader from(step / file_of_rank(rank));
    if (from.size() != std::uint64_t(count_member(x, "bytes", where)))
      throw input_error("'{}' has another length than its manifest says", from.path().string());
    const auto& chunks = member(x, "chunks", where);
    if (!chunks.is_array())
      throw input_error("{}: 'chunks' should be a list", where);
    for (const auto& chunk : chunks)
      out.parts[chunk_id(count_member(chunk, "chunk", where))] = read_chunk(from, chunk);
    return out;
  }
  throw input_error("{} has no rank {}", where, rank);
}

}  // namespace troupe::runtime
