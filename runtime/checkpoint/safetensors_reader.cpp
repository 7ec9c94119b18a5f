#include "runtime/checkpoint/safetensors.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/json_reader.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

namespace troupe::runtime {
namespace {

constexpr std::size_t length_size = 8;  // bytes of the length before the header
constexpr std::size_t largest_header = std::size_t{100}
                                       << 20;  // same limit as the reference reader
constexpr int header_depth = 4;

/// Reads the header entry of a tensor. `data` is the file offset of the elements, `data_size` their
/// size in bytes. `where` names file and tensor.
class entry_reader {
 public:
  entry_reader(std::string where, std::size_t data, std::size_t data_size)
      : where_(std::move(where)), data_(data), data_size_(data_size) {}

  stored_tensor read(const std::string& name, const nlohmann::json& entry) const {
    if (!entry.is_object() || entry.size() != 3)
      throw input_error("{} should have exactly 'dtype', 'shape' and 'data_offsets'", where_);
    stored_tensor x;
    x.name = name;
    const auto type = string_member(entry, "dtype", where_);
    if (const auto known = stored_type_from(type))
      x.type = *known;
    else
      throw input_error("{} has the type {}, which troupe does not support; convert it to F32",
                        where_,
                        shown(nlohmann::json(type)));
    const auto size = read_shape(member(entry, "shape", where_), x);
    const auto [begin, end] = read_offsets(member(entry, "data_offsets", where_));
    if (end - begin != size)
      throw input_error(
          "{}: shape {} of {} needs {} bytes, but its data_offsets [{}, {}] are {}; "
          "the file is damaged, get it again",
          where_,
          to_string(x.extents),
          type,
          size,
          begin,
          end,
          end - begin);
    x.offset = data_ + begin;
    x.bytes = size;
    return x;
  }

 private:
  /// Fills in the extents and returns the size in bytes.
  std::size_t read_shape(const nlohmann::json& list, stored_tensor& x) const {
    constexpr std::size_t most_axes = 4;
    if (!list.is_array() || list.size() > most_axes)
      throw input_error("{}: 'shape' should be a list of at most {} extents", where_, most_axes);
    std::uint64_t bytes = size_of(x.type);
    bool empty = false;
    for (const auto& one : list) {
      if (!one.is_number_unsigned())
        throw input_error("{}: an extent of 'shape' should be a whole number from 0, but is {}",
                          where_,
                          shown(one));
      const auto extent = one.get<std::uint64_t>();
      empty = empty || extent == 0;
      if (extent > std::uint64_t(std::numeric_limits<std::int64_t>::max())
          || (extent > 0
              && bytes > std::uint64_t(std::numeric_limits<std::int64_t>::max()) / extent))
        throw input_error(
            "{}: 'shape' has more elements than any file can hold; the file is "
            "damaged, get it again",
            where_);
      bytes *= std::max<std::uint64_t>(extent, 1);
      x.extents.push_back(std::int64_t(extent));
    }
    return empty ? 0 : bytes;
  }

  std::pair<std::size_t, std::size_t> read_offsets(const nlohmann::json& list) const {
    if (!list.is_array() || list.size() != 2 || !list[0].is_number_unsigned()
        || !list[1].is_number_unsigned())
      throw input_error("{}: 'data_offsets' should be two whole numbers from 0", where_);
    const auto begin = list[0].get<std::uint64_t>(), end = list[1].get<std::uint64_t>();
    if (begin > end || end > data_size_)
      throw input_error(
          "{}: data_offsets [{}, {}] are not inside the {} bytes of elements that the "
          "file has; it is cut off or damaged, get it again",
          where_,
          begin,
          end,
          data_size_);
    return {begin, end};
  }

  std::string where_;
  std::size_t data_, data_size_;
};

std::map<std::string, std::string> metadata_of(const nlohmann::json& entry,
                                               const std::string& where) {
  if (!entry.is_object())
    throw input_error("{}: '__metadata__' should be an object of texts", where);
  std::map<std::string, std::string> out;
  for (const auto& [key, value] : entry.items()) {
    if (!value.is_string())
      throw input_error("{}: '__metadata__' should be an object of texts, but {} is {}",
                        where,
                        shown(nlohmann::json(key)),
                        shown(value));
    out[key] = value.get<std::string>();
  }
  return out;
}

}  // namespace

safetensors_file::safetensors_file(const std::filesystem::path& path) : path_(path), file_(path) {
  try {
    read_header();
  } catch (const input_error&) {
    file_.require_intact();  // a read error explains the malformed header
    throw;
  }
  file_.require_intact();
  for (std::size_t i = 0; i < tensors_.size(); ++i)
    index_.emplace(tensors_[i].name, i);
}

void safetensors_file::read_header() {
  const auto where = "'" + path_.string() + "'";
  const auto text = file_.text();
  if (text.size() < length_size)
    throw input_error(
        "{} has {} bytes, too few for a safetensors file; get it again", where, text.size());
  std::uint64_t header_size = 0;
  std::memcpy(&header_size, text.data(), length_size);
  const auto after_length = text.size() - length_size;
  if (header_size > after_length || header_size > largest_header)
    throw input_error(
        "{} gives {} bytes as the size of its header, but {} follow and at most {} are accepted; "
        "it is not a safetensors file, or it is cut off: get it again",
        where,
        header_size,
        after_length,
        largest_header);
  const auto header_text = text.substr(length_size, header_size);
  if (!header_text.starts_with('{'))
    throw input_error("{}: its header is not a JSON object; it is not a safetensors file", where);
  const auto header
      = parse_json(header_text, "the header of " + where, {largest_header, header_depth});

  const auto data = length_size + std::size_t(header_size);
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__")
      metadata_ = metadata_of(entry, where);
    else
      tensors_.push_back(
          entry_reader(fmt::format("{}, tensor {}", where, shown(nlohmann::json(name))),
                       data,
                       text.size() - data)
              .read(name, entry));
  }
  std::sort(tensors_.begin(), tensors_.end(), [](const stored_tensor& a, const stored_tensor& b) {
    return std::pair(a.offset, a.bytes) < std::pair(b.offset, b.bytes);
  });
  auto expected = data;
  for (const auto& x : tensors_) {
    if (x.offset != expected)
      throw input_error(
          "{}, tensor {}: its elements begin at byte {} of the file, but those before "
          "it end at {}; the file is damaged, get it again",
          where,
          shown(nlohmann::json(x.name)),
          x.offset,
          expected);
    expected += x.bytes;
  }
  if (expected != text.size())
    throw input_error("{} has {} bytes after its last tensor; it is damaged, get it again",
                      where,
                      text.size() - expected);
}

const stored_tensor* safetensors_file::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

void safetensors_file::read(const stored_tensor& x,
                            std::int64_t first,
                            std::span<float> out) const {
  ensure(first >= 0 && first <= x.extents.size()
             && std::int64_t(out.size()) <= x.extents.size() - first,
         "SAFETENSORS-2: elements that are read lie inside their tensor");
  if (!is_readable_as_f32(x.type))
    throw input_error(
        "'{}', tensor '{}' is of type {}, which cannot be read as float; convert it to F32, "
        "F16 or BF16",
        path_.string(),
        x.name,
        to_string(x.type));
  to_f32(x.type, file_.bytes().data() + x.offset + std::size_t(first) * size_of(x.type), out);
  file_.require_intact();
}

}  // namespace troupe::runtime
