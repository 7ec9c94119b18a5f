#include "runtime/checkpoint/manifest.hpp"

#include "runtime/checkpoint/json.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/hash.hpp"

#include <algorithm>
#include <set>

namespace troupe::runtime {
namespace {

constexpr const char* format_name = "troupe-checkpoint";
constexpr std::int64_t format_version = 1;
constexpr std::size_t sha256_digits = 64, xxh3_digits = 32;
constexpr std::string_view seal_key = "\"manifest_sha256\": \"";
constexpr std::string_view seal_end = "\"\n}\n";

bool is_hex(const std::string& text, std::size_t digits) {
  return text.size() == digits && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

std::string hex_member(const nlohmann::json& object,
                       const char* key,
                       std::size_t digits,
                       const std::string& where) {
  auto text = string_member(object, key, where);
  if (!is_hex(text, digits))
    throw input_error("{}: '{}' should be {} hexadecimal digits, but is {}",
                      where,
                      key,
                      digits,
                      shown(nlohmann::json(text)));
  return text;
}

std::string sha256_of(std::string_view text) {
  sha256 hash;
  hash.add(text.data(), text.size());
  return hash.hex();
}

/// The text with its seal replaced by zeros, and the seal.
std::pair<std::string, std::string> unsealed(std::string_view text, const std::string& where) {
  const auto tail = seal_key.size() + sha256_digits + seal_end.size();
  const auto begin = text.size() < tail ? 0 : text.size() - tail;
  const auto end_of_text = text.substr(begin);
  if (!end_of_text.starts_with(seal_key) || !end_of_text.ends_with(seal_end))
    throw input_error(
        "{} does not end with its SHA-256; it is cut off or was written by hand: use "
        "another checkpoint",
        where);
  std::string zeros(text);
  auto seal = zeros.substr(begin + seal_key.size(), sha256_digits);
  zeros.replace(begin + seal_key.size(), sha256_digits, sha256_digits, '0');
  return {std::move(zeros), std::move(seal)};
}

tensor_record tensor_from(const std::string& name,
                          const nlohmann::json& entry,
                          const std::string& shard) {
  const auto where = fmt::format("{}, tensor {}", shard, shown(nlohmann::json(name)));
  if (!entry.is_object())
    throw input_error("{}: should be an object, but is {}", where, shown(entry));
  tensor_record x;
  x.name = name;
  const auto type = string_member(entry, "dtype", where);
  const auto known = stored_type_from(type);
  if (!known)
    throw input_error("{}: the type {} is not known", where, shown(nlohmann::json(type)));
  x.type = *known;
  const auto& extents = member(entry, "shape", where);
  constexpr std::size_t most_axes = 4;
  constexpr std::uint64_t largest_extent = std::uint64_t{1} << 40;
  if (!extents.is_array() || extents.size() > most_axes)
    throw input_error("{}: 'shape' should be a list of at most {} extents", where, most_axes);
  std::uint64_t size = 1;
  for (const auto& one : extents) {
    if (!one.is_number_unsigned() || one.get<std::uint64_t>() > largest_extent
        || size * std::max<std::uint64_t>(one.get<std::uint64_t>(), 1) > largest_extent)
      throw input_error("{}: 'shape' has an extent that cannot be: {}", where, shown(one));
    size *= std::max<std::uint64_t>(one.get<std::uint64_t>(), 1);
    x.extents.push_back(one.get<std::int64_t>());
  }
  x.xxh3 = hex_member(entry, "xxh3", xxh3_digits, where);
  return x;
}

shard_record shard_from(const nlohmann::json& entry,
                        std::set<std::string>& names,
                        const std::string& where) {
  if (!entry.is_object())
    throw input_error("{}: a shard should be an object, but is {}", where, shown(entry));
  shard_record x;
  x.file = string_member(entry, "file", where);
  require_plain_file_name(x.file, where);
  const auto shard = fmt::format("{}, shard '{}'", where, x.file);
  x.bytes = std::uint64_t(count_member(entry, "bytes", shard));
  x.sha256 = hex_member(entry, "sha256", sha256_digits, shard);
  for (const auto& [name, tensor] : object_member(entry, "tensors", shard).items()) {
    if (!names.insert(name).second)
      throw input_error("{}: tensor {} is in another shard too; use another checkpoint",
                        shard,
                        shown(nlohmann::json(name)));
    x.tensors.push_back(tensor_from(name, tensor, shard));
  }
  return x;
}

}  // namespace

void require_plain_file_name(const std::string& name, const std::string& where) {
  if (name.empty() || name.starts_with('.') || name.size() > 255
      || name.find_first_of(std::string_view("/\\\0", 3)) != std::string::npos)
    throw input_error("{}: {} should be the name of a file in the same folder",
                      where,
                      shown(nlohmann::json(name)));
}

std::string to_json(const checkpoint_manifest& x) {
  nlohmann::ordered_json out = {{"format", format_name},
                                {"format_version", format_version},
                                {"iteration", x.iteration},
                                {"consumed_samples", x.consumed_samples},
                                {"generation", value(x.generation)}};
  out["model"] = nlohmann::ordered_json::parse(to_json(x.model));
  out["identity"] = nlohmann::ordered_json::parse(x.identity);
  out["layout"] = nlohmann::ordered_json::parse(x.layout);
  ensure(out["identity"].is_object() && out["layout"].is_object(),
         "MANIFEST-1: identity and layout are JSON objects");
  out["shards"] = nlohmann::ordered_json::array();
  for (const auto& shard : x.shards) {
    auto tensors = nlohmann::ordered_json::object();
    for (const auto& tensor : shard.tensors)
      tensors[tensor.name]
          = {{"shape", std::vector<std::int64_t>(tensor.extents.begin(), tensor.extents.end())},
             {"dtype", to_string(tensor.type)},
             {"xxh3", tensor.xxh3}};
    out["shards"].push_back({{"file", shard.file},
                             {"bytes", shard.bytes},
                             {"sha256", shard.sha256},
                             {"tensors", tensors}});
  }
  out["manifest_sha256"] = std::string(sha256_digits, '0');
  auto text = out.dump(1) + "\n";
  const auto seal = sha256_of(text);
  return text.replace(text.size() - seal_end.size() - sha256_digits, sha256_digits, seal);
}

checkpoint_manifest manifest_from_json(std::string_view text, const std::string& where) {
  const auto [zeros, seal] = unsealed(text, where);
  const auto actual = sha256_of(zeros);
  if (seal != actual)
    throw input_error("{} has the SHA-256 {}, but says {}; it is damaged: use another checkpoint",
                      where,
                      actual,
                      shown(nlohmann::json(seal)));
  const auto in = parse_json(text, where);
  if (string_member(in, "format", where) != format_name)
    throw input_error(
        "{}: 'format' is not '{}'; it belongs to another program", where, format_name);
  if (const auto version = count_member(in, "format_version", where); version != format_version)
    throw input_error(
        "{} is of format version {}, and this program reads {}; use the program that "
        "wrote it",
        where,
        version,
        format_version);
  checkpoint_manifest x;
  x.iteration = count_member(in, "iteration", where);
  x.consumed_samples = count_member(in, "consumed_samples", where);
  x.generation = generation_id(count_member(in, "generation", where));
  try {
    x.model = gpt_config_from_json(object_member(in, "model", where).dump());
  } catch (const input_error& failure) {
    throw input_error("{}: {}", where, failure.what());
  }
  x.identity = object_member(in, "identity", where).dump();
  x.layout = object_member(in, "layout", where).dump();
  const auto& shards = member(in, "shards", where);
  if (!shards.is_array())
    throw input_error("{}: 'shards' should be a list, but is {}", where, shown(shards));
  std::set<std::string> names, files;
  for (const auto& shard : shards) {
    x.shards.push_back(shard_from(shard, names, where));
    if (!files.insert(x.shards.back().file).second)
      throw input_error("{}: shard '{}' is listed twice", where, x.shards.back().file);
  }
  return x;
}

}  // namespace troupe::runtime
