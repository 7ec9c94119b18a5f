#include "runtime/checkpoint/manifest.hpp"

#include "runtime/checkpoint/cover.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/hash.hpp"
#include "runtime/core/json_reader.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/family/model_family.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace troupe::runtime {
namespace {

constexpr const char* format_name = "troupe-checkpoint";
constexpr std::int64_t format_version = 2, oldest_version = 1;
constexpr std::size_t sha256_digits = 64, xxh3_digits = 32;
constexpr std::size_t largest_rest = std::size_t{4}
                                     << 20;  // limit of everything except the list of shards
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

/// The text with its seal zeroed, and the seal.
std::pair<std::string, std::string> unsealed(std::string_view text, const std::string& where) {
  const auto tail = seal_key.size() + sha256_digits + seal_end.size();
  const auto begin = text.size() < tail ? 0 : text.size() - tail;
  const auto last_bytes = text.substr(begin);
  if (!last_bytes.starts_with(seal_key) || !last_bytes.ends_with(seal_end))
    throw input_error(
        "{} does not end with its SHA-256; it is cut off, or was written by hand: use "
        "another checkpoint",
        where);
  std::string zeros(text);
  auto seal = zeros.substr(begin + seal_key.size(), sha256_digits);
  zeros.replace(begin + seal_key.size(), sha256_digits, sha256_digits, '0');
  return {std::move(zeros), std::move(seal)};
}

/// Reads at most four extents of a tensor with at most 2^40 elements, so their product cannot
/// overflow.
shape numbers_member(const nlohmann::json& entry, const char* key, const std::string& where) {
  const auto& list = member(entry, key, where);
  constexpr std::size_t most_axes = 4;
  constexpr std::uint64_t largest = std::uint64_t{1} << 40;
  if (!list.is_array() || list.size() > most_axes)
    throw input_error("{}: '{}' should be a list of at most {} numbers", where, key, most_axes);
  shape out;
  std::uint64_t size = 1;
  for (const auto& one : list) {
    const auto number = one.is_number_unsigned() ? one.get<std::uint64_t>() : std::uint64_t(-1);
    if (number > largest / size)
      throw input_error("{}: '{}' has an impossible number: {}", where, key, shown(one));
    size *= std::max<std::uint64_t>(number, 1);
    out.push_back(std::int64_t(number));
  }
  return out;
}

/// `where` names the shard. Version 1 has only whole tensors.
stored_shard piece_from(const std::string& name,
                        const nlohmann::json& entry,
                        std::int64_t version,
                        const std::string& shard) {
  const auto where = fmt::format("{}, tensor {}", shard, shown(nlohmann::json(name)));
  if (!entry.is_object())
    throw input_error("{}: should be an object, but is {}", where, shown(entry));
  stored_shard x;
  x.name = name;
  const auto type = string_member(entry, "dtype", where);
  const auto known = stored_type_from(type);
  if (!known)
    throw input_error("{}: the type {} is not known", where, shown(nlohmann::json(type)));
  x.elements.type = *known;
  x.whole = numbers_member(entry, "shape", where);
  x.part = version == 1 ? whole(x.whole)
                        : box{numbers_member(entry, "first", where),
                              numbers_member(entry, "extents", where)};
  if (x.part.first.rank() != x.part.extents.rank() || !contains(x.whole, x.part))
    throw input_error("{}: its part from {} of extents {} does not lie inside its shape {}",
                      where,
                      to_string(x.part.first),
                      to_string(x.part.extents),
                      to_string(x.whole));
  x.elements.xxh3 = hex_member(entry, "xxh3", xxh3_digits, where);
  return x;
}

std::vector<stored_shard> pieces_from(const nlohmann::json& entry,
                                      std::int64_t version,
                                      const std::string& shard) {
  std::vector<stored_shard> out;
  if (version == 1) {
    for (const auto& [name, tensor] : object_member(entry, "tensors", shard).items())
      out.push_back(piece_from(name, tensor, version, shard));
    return out;
  }
  const auto& list = member(entry, "pieces", shard);
  if (!list.is_array())
    throw input_error("{}: 'pieces' should be a list, but is {}", shard, shown(list));
  for (const auto& piece : list) {
    if (!piece.is_object())
      throw input_error("{}: a piece should be an object, but is {}", shard, shown(piece));
    const auto name = string_member(piece, "name", shard);
    if (name.find(box_begin) != std::string::npos)
      throw input_error("{}: tensor {} has a bracket in its name, which begins a box",
                        shard,
                        shown(nlohmann::json(name)));
    out.push_back(piece_from(name, piece, version, shard));
  }
  return out;
}

shard_record shard_from(const nlohmann::json& entry,
                        std::int64_t version,
                        const std::string& where) {
  if (!entry.is_object())
    throw input_error("{}: a shard should be an object, but is {}", where, shown(entry));
  shard_record x;
  x.file = string_member(entry, "file", where);
  require_plain_file_name(x.file, where);
  const auto shard = fmt::format("{}, shard '{}'", where, x.file);
  x.bytes = std::uint64_t(count_member(entry, "bytes", shard));
  x.sha256 = hex_member(entry, "sha256", sha256_digits, shard);
  x.pieces = pieces_from(entry, version, shard);
  return x;
}

std::string described(const stored_shard& x) {
  return fmt::format("{} {}", to_string(x.elements.type), to_string(x.whole));
}

void require_exact_cover(const std::vector<shard_record>& shards, const std::string& where) {
  struct tensor {
    const stored_shard* first = nullptr;
    std::vector<box> parts;
  };
  std::map<std::string_view, tensor> all;
  for (const auto& shard : shards)
    for (const auto& x : shard.pieces) {
      auto& of = all[x.name];
      if (of.first == nullptr)
        of.first = &x;
      if (of.first->elements.type != x.elements.type || of.first->whole != x.whole)
        throw input_error(
            "{}: tensor {} is {} in one piece but {} in another; use another "
            "checkpoint",
            where,
            shown(nlohmann::json(x.name)),
            described(*of.first),
            described(x));
      of.parts.push_back(x.part);
    }
  for (const auto& [name, of] : all)
    if (const auto wrong = cover_fault(of.first->whole, of.parts))
      throw input_error(
          "{}: tensor {} of shape {} does not have all elements exactly once: {}; use another "
          "checkpoint",
          where,
          shown(nlohmann::json(name)),
          to_string(of.first->whole),
          *wrong);
}

/// Missing in checkpoints of runs that skipped nothing.
skipped_steps skipped_from(const nlohmann::json& in,
                           std::int64_t iterations,
                           std::int64_t samples,
                           const std::string& manifest) {
  if (!in.contains("skipped"))
    return {};
  const auto where = manifest + ", 'skipped'";
  const auto& x = object_member(in, "skipped", manifest);
  const auto count = [&](const char* key) { return std::uint64_t(count_member(x, key, where)); };
  const skipped_steps out{count("iterations"), count("samples"), count("nan"), count("in_a_row")};
  if (out.iterations > std::uint64_t(iterations) || out.samples > std::uint64_t(samples)
      || out.nan > out.iterations || out.in_a_row > out.iterations)
    throw input_error(
        "{}: it counts more than all {} iterations and {} samples; use another "
        "checkpoint",
        where,
        iterations,
        samples);
  return out;
}

/// Missing if the loss is not scaled.
loss_scale scale_from(const nlohmann::json& in,
                      std::int64_t iterations,
                      const std::string& manifest) {
  if (!in.contains("loss_scale"))
    return {};
  const auto where = manifest + ", 'loss_scale'";
  const auto& x = object_member(in, "loss_scale", manifest);
  const auto& value = member(x, "value", where);
  const auto& hysteresis = member(x, "hysteresis", where);
  if (!value.is_number() || !(value.get<double>() > 0) || !std::isfinite(value.get<double>()))
    throw input_error("{}: 'value' should be a number above 0, but is {}; use another checkpoint",
                      where,
                      shown(value));
  const auto whole_hysteresis = whole_number_in(hysteresis);
  if (!whole_hysteresis)
    throw input_error(
        "{}: 'hysteresis' should be a whole number, but is {}; use another checkpoint",
        where,
        shown(hysteresis));
  const loss_scale out{.value = value.get<double>(),
                       .finite = count_member(x, "finite", where),
                       .hysteresis = *whole_hysteresis,
                       .at_minimum = std::uint64_t(count_member(x, "at_minimum", where))};
  if (out.finite > iterations || out.at_minimum > std::uint64_t(iterations))
    throw input_error(
        "{}: it counts more than all {} iterations; use another checkpoint", where, iterations);
  return out;
}

std::vector<std::int64_t> as_list(const shape& x) {
  return {x.begin(), x.end()};
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
  if (x.skipped != skipped_steps{})
    out["skipped"] = {{"iterations", x.skipped.iterations},
                      {"samples", x.skipped.samples},
                      {"nan", x.skipped.nan},
                      {"in_a_row", x.skipped.in_a_row}};
  if (x.scale.is_used())
    out["loss_scale"] = {{"value", x.scale.value},
                         {"finite", x.scale.finite},
                         {"hysteresis", x.scale.hysteresis},
                         {"at_minimum", x.scale.at_minimum}};
  out["model"] = ordered_json_value(to_json(x.model));
  out["identity"] = ordered_json_value(x.identity);
  out["layout"] = ordered_json_value(x.layout);
  ensure(out["identity"].is_object() && out["layout"].is_object(),
         "MANIFEST-1: identity and layout are JSON objects");
  if (!x.products.empty())
    out["products"] = x.products;
  out["shards"] = nlohmann::ordered_json::array();
  for (const auto& shard : x.shards) {
    auto pieces = nlohmann::ordered_json::array();
    for (const auto& piece : shard.pieces)
      pieces.push_back({{"name", piece.name},
                        {"shape", as_list(piece.whole)},
                        {"first", as_list(piece.part.first)},
                        {"extents", as_list(piece.part.extents)},
                        {"dtype", to_string(piece.elements.type)},
                        {"xxh3", piece.elements.xxh3}});
    out["shards"].push_back({{"file", shard.file},
                             {"bytes", shard.bytes},
                             {"sha256", shard.sha256},
                             {"pieces", pieces}});
  }
  out["manifest_sha256"] = std::string(sha256_digits, '0');
  auto text = json_text(out, 1) + "\n";
  const auto seal = sha256_of(text);
  return text.replace(text.size() - seal_end.size() - sha256_digits, sha256_digits, seal);
}

namespace {

/// The hash detects damage, not an invalid manifest.
void require_model(const checkpoint_manifest& x, const std::string& where) {
  if (const auto wrong = validate(x.model); !wrong.empty())
    throw input_error("{}: its model is impossible: {}", where, wrong.front());
  std::uint64_t bytes = 0;
  for (const auto& shard : x.shards)
    bytes += shard.bytes;
  const auto fewest = x.model.family().fewest_parameters(x.model);
  if (!x.shards.empty() && std::uint64_t(fewest) > bytes)
    throw input_error(
        "{}: its model has at least {} parameters, but its shards only {} bytes; use another "
        "checkpoint",
        where,
        fewest,
        bytes);
}

}  // namespace

checkpoint_manifest manifest_from_json(std::string_view text, const std::string& where) {
  const auto [zeros, seal] = unsealed(text, where);
  const auto actual = sha256_of(zeros);
  if (seal != actual)
    throw input_error(
        "{} has the SHA-256 {}, but contains {}; it is damaged: use another checkpoint",
        where,
        actual,
        shown(nlohmann::json(seal)));
  const auto in = parse_json(text, where, {.long_member = "shards", .other_bytes = largest_rest});
  if (string_member(in, "format", where) != format_name)
    throw input_error(
        "{}: 'format' is not '{}'; it belongs to another program", where, format_name);
  const auto version = count_member(in, "format_version", where);
  if (version < oldest_version || version > format_version)
    throw input_error(
        "{} is of format version {}, and this program reads {} to {}; use the program that "
        "wrote it",
        where,
        version,
        oldest_version,
        format_version);
  checkpoint_manifest x;
  x.iteration = count_member(in, "iteration", where);
  x.consumed_samples = count_member(in, "consumed_samples", where);
  x.skipped = skipped_from(in, x.iteration, x.consumed_samples, where);
  x.scale = scale_from(in, x.iteration, where);
  x.generation = generation_id(count_member(in, "generation", where));
  try {
    x.model = model_from_json(json_text(object_member(in, "model", where)));
  } catch (const input_error& failure) {
    throw input_error("{}: {}", where, failure.what());
  }
  x.identity = json_text(object_member(in, "identity", where));
  x.layout = json_text(object_member(in, "layout", where));
  if (in.contains("products"))
    for (const auto& [product, algorithm] : object_member(in, "products", where).items())
      x.products[product] = string_member(in["products"], product.c_str(), where);
  const auto& shards = member(in, "shards", where);
  if (!shards.is_array())
    throw input_error("{}: 'shards' should be a list, but is {}", where, shown(shards));
  std::set<std::string> files;
  for (const auto& shard : shards) {
    x.shards.push_back(shard_from(shard, version, where));
    if (!files.insert(x.shards.back().file).second)
      throw input_error("{}: shard '{}' is listed twice", where, x.shards.back().file);
  }
  require_exact_cover(x.shards, where);
  require_model(x, where);
  return x;
}

}  // namespace troupe::runtime
