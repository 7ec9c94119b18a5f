#include "runtime/checkpoint/safetensors.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/hash.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/core/waiting.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

namespace troupe::runtime {
namespace {

// Large enough for the disk and small enough for the cache, which both hashes use.
constexpr std::size_t piece_size = std::size_t{1} << 18;

std::uint64_t bytes_of(const shard_to_write& x) {
  return std::uint64_t(x.part.size()) * size_of(x.elements.type);
}

std::string header_of(std::span<const shard_to_write> shards,
                      const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty())
    header["__metadata__"] = metadata;
  // Appended: a lookup of each key would be quadratic.
  auto& entries = header.get_ref<nlohmann::ordered_json::object_t&>();
  std::set<std::string> names = {"__metadata__"};
  std::uint64_t offset = 0;
  for (const auto& x : shards) {
    ensure(contains(x.whole, x.part), "SAFETENSORS-3: a shard lies inside its tensor");
    const auto key = key_in_file(x);
    ensure(names.insert(key).second, "SAFETENSORS-1: names in one file are unique");
    const auto end = offset + bytes_of(x);
    entries.emplace_back(
        key,
        nlohmann::ordered_json{
            {"dtype", to_string(x.elements.type)},
            {"shape", std::vector<std::int64_t>(x.part.extents.begin(), x.part.extents.end())},
            {"data_offsets", {offset, end}}});
    offset = end;
  }
  auto text = json_text(header);
  text.append((8 - text.size() % 8) % 8, ' ');  // aligns elements of 8 bytes
  return text;
}

}  // namespace

shard_to_write whole_tensor(std::string name, stored_type type, shape extents, const void* data) {
  return {std::move(name), extents, whole(extents), {type, data}};
}

written_tensors write_safetensors(const std::filesystem::path& path,
                                  std::span<const shard_to_write> shards,
                                  const std::map<std::string, std::string>& metadata) {
  file_writer out(path);
  sha256 hash;
  const auto put = [&](const void* data, std::size_t size) {
    hash.add(data, size);
    out.write(data, size);
  };
  const auto header = header_of(shards, metadata);
  const std::uint64_t header_size = header.size();
  put(&header_size, sizeof header_size);
  put(header.data(), header.size());

  written_tensors result;
  for (const auto& x : shards) {
    digester elements;
    const auto* data = static_cast<const std::byte*>(x.elements.data);
    for (auto left = bytes_of(x); left > 0;) {
      const auto size = std::min<std::uint64_t>(left, piece_size);
      elements.add(data, size);
      put(data, size);
      mark_progress();
      data += size;
      left -= size;
    }
    result.xxh3.push_back(to_string(elements.result()));
  }
  out.commit();
  result.bytes = out.size();
  result.sha256 = hash.hex();
  return result;
}

}  // namespace troupe::runtime
