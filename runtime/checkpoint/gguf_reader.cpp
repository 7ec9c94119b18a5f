#include "runtime/checkpoint/gguf.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/json_bytes.hpp"
#include "runtime/core/json_reader.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <set>

namespace troupe::runtime {
namespace {

constexpr std::string_view magic = "GGUF";
constexpr std::size_t longest_key = 65535, longest_text = std::size_t{64} << 20;
constexpr std::uint64_t most_values = std::uint64_t{1} << 22, most_tensors = 1 << 20;
constexpr std::uint64_t most_alignment = 1 << 20, usual_alignment = 32;
constexpr int deepest_array = 4;

/// Reads fields one after the other, inside the file.
class gguf_cursor {
 public:
  gguf_cursor(std::string_view text, std::string where) : text_(text), where_(std::move(where)) {}

  std::size_t at() const { return at_; }

  template <class... Arguments>
  [[noreturn]] void refuse(std::size_t at,
                           fmt::format_string<Arguments...> what,
                           Arguments&&... arguments) const {
    throw input_error(
        "{}, byte {}: {}", where_, at, fmt::format(what, std::forward<Arguments>(arguments)...));
  }

  std::string_view take(std::uint64_t size, const std::string& field) {
    if (size > text_.size() - at_)
      refuse(at_,
             "{} needs {} bytes, but the file ends after {} more; it is cut off or damaged, get it "
             "again",
             field,
             size,
             text_.size() - at_);
    const auto out = text_.substr(at_, std::size_t(size));
    at_ += std::size_t(size);
    return out;
  }

  template <class T>
  T number(const std::string& field) {
    T x;
    std::memcpy(&x, take(sizeof x, field).data(), sizeof x);
    return x;
  }

  std::string string(const std::string& field, std::size_t most) {
    const auto begin = at_;
    const auto size = number<std::uint64_t>("the length of " + field);
    if (size > most)
      refuse(begin,
             "{} has {} bytes, but at most {} are accepted; the file is damaged, get it again",
             field,
             size,
             most);
    std::string out(take(size, field));
    if (!text_or_bytes(out).is_string())
      refuse(begin, "{} is not UTF-8; the file is damaged, get it again", field);
    return out;
  }

  gguf_type type(const std::string& field) {
    const auto begin = at_;
    const auto x = number<std::uint32_t>("the type of " + field);
    if (x > std::uint32_t(gguf_type::f64))
      refuse(begin,
             "{} has the type {}, but those of GGUF are 0 to 12; the file is damaged or of a newer "
             "version",
             field,
             x);
    return gguf_type(x);
  }

  nlohmann::json value(gguf_type type, const std::string& field) {
    count_value(field);
    switch (type) {
      case gguf_type::u8:
        return number<std::uint8_t>(field);
      case gguf_type::i8:
        return number<std::int8_t>(field);
      case gguf_type::u16:
        return number<std::uint16_t>(field);
      case gguf_type::i16:
        return number<std::int16_t>(field);
      case gguf_type::u32:
        return number<std::uint32_t>(field);
      case gguf_type::i32:
        return number<std::int32_t>(field);
      case gguf_type::u64:
        return number<std::uint64_t>(field);
      case gguf_type::i64:
        return number<std::int64_t>(field);
      case gguf_type::f32:
        return double(number<float>(field));
      case gguf_type::f64:
        return number<double>(field);
      case gguf_type::boolean:
        return boolean(field);
      case gguf_type::string:
        return string(field, longest_text);
      case gguf_type::array:
        break;
    }
    return array(field, this->type("the elements of " + field), 1);
  }

  nlohmann::json array(const std::string& field, gguf_type element, int depth) {
    const auto begin = at_;
    const auto count = number<std::uint64_t>("the length of " + field);
    auto out = nlohmann::json::array();
    if (element == gguf_type::array && depth == deepest_array)
      refuse(begin, "{} has arrays more than {} deep", field, deepest_array);
    for (std::uint64_t i = 0; i < count; ++i) {
      if (element == gguf_type::array) {
        count_value(field);
        const auto inner = type("the elements of " + field);
        out.push_back(array(field, inner, depth + 1));
      } else {
        out.push_back(value(element, field));
      }
    }
    return out;
  }

 private:
  bool boolean(const std::string& field) {
    const auto begin = at_;
    const auto x = number<std::uint8_t>(field);
    if (x > 1)
      refuse(begin, "{} is {}, but a truth value is 0 or 1; the file is damaged", field, x);
    return x == 1;
  }

  void count_value(const std::string& field) {
    if (++values_ > most_values)
      refuse(
          at_,
          "{} makes more than {} values of metadata, which are not accepted; the file is damaged",
          field,
          most_values);
  }

  std::string_view text_;
  std::string where_;
  std::size_t at_ = 0;
  std::uint64_t values_ = 0;
};

struct gguf_counts {
  std::uint64_t tensors, pairs;
};

gguf_counts read_beginning(gguf_cursor& in) {
  if (in.take(magic.size(), "the magic number") != magic)
    in.refuse(0, "the file does not begin with {}; it is not a GGUF file", magic);
  const auto version = in.number<std::uint32_t>("the version");
  if (version != 2 && version != 3)
    in.refuse(4,
              "the version is {}, but 2 and 3 are read{}",
              version,
              version == 0x2000000 || version == 0x3000000
                  ? "; the file is big-endian, get it in little-endian"
                  : "; convert the model again with a present llama.cpp");
  const auto tensors = in.number<std::uint64_t>("the number of tensors");
  if (tensors > most_tensors)
    in.refuse(8, "{} tensors are more than {}; the file is damaged", tensors, most_tensors);
  return {tensors, in.number<std::uint64_t>("the number of metadata pairs")};
}

/// Fills in extents and bytes. The first one of the file is the innermost.
void read_extents(gguf_cursor& in, gguf_tensor& x, const std::string& field) {
  const auto begin = in.at();
  const auto rank = in.number<std::uint32_t>("the rank of " + field);
  if (rank > 4)
    in.refuse(begin, "{} has the rank {}, but at most 4 are accepted", field, rank);
  std::uint64_t inner[4] = {}, size = 1;
  bool empty = false;
  for (std::uint32_t i = 0; i < rank; ++i) {
    inner[i] = in.number<std::uint64_t>("an extent of " + field);
    empty = empty || inner[i] == 0;
    constexpr std::uint64_t most = std::uint64_t(std::numeric_limits<std::int64_t>::max()) / 8;
    if (inner[i] > most / size)
      in.refuse(begin, "{} has more elements than any file can hold; the file is damaged", field);
    size *= std::max<std::uint64_t>(inner[i], 1);
  }
  for (auto i = rank; i > 0; --i)
    x.extents.push_back(std::int64_t(inner[i - 1]));
  const auto type_at = in.at();
  const auto type = in.number<std::uint32_t>("the type of " + field);
  const auto* const format = find_block_format(type);
  if (format == nullptr)
    in.refuse(type_at,
              "{} has the type {} of ggml, which is not read; read are {}: quantise the model to "
              "one of these",
              field,
              type,
              block_format_names());
  x.type = format->type;
  const auto row = rank == 0 ? 1 : std::int64_t(inner[0]);
  if (row % format->elements != 0)
    in.refuse(begin,
              "{} is {}, but its rows of {} elements are not whole blocks of {}",
              field,
              format->name,
              row,
              format->elements);
  x.bytes = empty ? 0 : std::size_t(size / std::uint64_t(format->elements) * format->bytes);
}

void require_disjoint(const gguf_cursor& in, const std::vector<gguf_tensor>& tensors) {
  std::vector<const gguf_tensor*> sorted;
  for (const auto& x : tensors)
    sorted.push_back(&x);
  std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) {
    return std::pair(a->offset, a->bytes) < std::pair(b->offset, b->bytes);
  });
  for (std::size_t i = 1; i < sorted.size(); ++i)
    if (sorted[i]->offset < sorted[i - 1]->offset + sorted[i - 1]->bytes)
      in.refuse(sorted[i]->offset,
                "the elements of tensor {} begin inside those of {}; the file is damaged, get it "
                "again",
                shown(nlohmann::json(sorted[i]->name)),
                shown(nlohmann::json(sorted[i - 1]->name)));
}

}  // namespace

bool is_gguf_file(const std::filesystem::path& path) {
  std::error_code failure;
  if (!std::filesystem::is_regular_file(path, failure))
    return false;
  char first[4] = {};
  std::ifstream(path, std::ios::binary).read(first, sizeof first);
  return std::string_view(first, sizeof first) == magic;
}

gguf_file::gguf_file(const std::filesystem::path& path) : path_(path), file_(path) {
  try {
    read_header();
  } catch (const input_error&) {
    file_.require_intact();  // a read error explains the malformed header
    throw;
  }
  file_.require_intact();
}

void gguf_file::read_header() {
  const auto text = file_.text();
  gguf_cursor in(text, "'" + path_.string() + "'");
  const auto [tensors, pairs] = read_beginning(in);
  std::set<std::string> keys, names;
  for (std::uint64_t i = 0; i < pairs; ++i) {
    const auto begin = in.at();
    auto key = in.string(fmt::format("metadata key {}", i + 1), longest_key);
    const auto field = "metadata " + shown(nlohmann::json(key));
    if (!keys.insert(key).second)
      in.refuse(begin, "{} is there twice; the file is damaged", field);
    gguf_value x;
    x.type = in.type(field);
    if (x.type == gguf_type::array) {
      x.element = in.type("the elements of " + field);
      x.value = in.array(field, x.element, 1);
    } else {
      x.value = in.value(x.type, field);
    }
    metadata_.emplace_back(std::move(key), std::move(x));
  }
  for (std::size_t i = 0; i < metadata_.size(); ++i)
    keys_.emplace(metadata_[i].first, i);

  auto alignment = usual_alignment;
  if (const auto* const given = find("general.alignment")) {
    if (!given->is_number_unsigned() || given->get<std::uint64_t>() > most_alignment
        || !std::has_single_bit(given->get<std::uint64_t>()))
      in.refuse(in.at(),
                "metadata \"general.alignment\" should be a power of 2 up to {}, but is {}",
                most_alignment,
                shown(*given));
    alignment = given->get<std::uint64_t>();
  }
  for (std::uint64_t i = 0; i < tensors; ++i) {
    const auto begin = in.at();
    gguf_tensor x;
    x.name = in.string(fmt::format("the name of tensor {}", i + 1), longest_key);
    const auto field = "tensor " + shown(nlohmann::json(x.name));
    read_extents(in, x, field);
    const auto offset_at = in.at();
    const auto offset = in.number<std::uint64_t>("the offset of " + field);
    if (offset > text.size() || offset % alignment != 0)
      in.refuse(offset_at,
                "{} has the offset {}, which is not a multiple of the alignment {} inside the file",
                field,
                offset,
                alignment);
    x.offset = std::size_t(offset);
    if (!names.insert(x.name).second)
      in.refuse(begin, "{} is there twice; the file is damaged", field);
    tensors_.push_back(std::move(x));
  }
  data_ = std::size_t((in.at() + alignment - 1) / alignment * alignment);
  data_ = std::min(data_, text.size());  // a file without tensors may lack the padding
  for (auto& x : tensors_) {
    if (x.bytes > text.size() - data_ || x.offset > text.size() - data_ - x.bytes)
      in.refuse(in.at(),
                "tensor {} needs {} bytes at byte {}, but the file has {} bytes; it is cut off or "
                "damaged, get it again",
                shown(nlohmann::json(x.name)),
                x.bytes,
                data_ + x.offset,
                text.size());
    x.offset += data_;
  }
  require_disjoint(in, tensors_);
  for (std::size_t i = 0; i < tensors_.size(); ++i)
    names_.emplace(tensors_[i].name, i);
}

const nlohmann::json* gguf_file::find(std::string_view key) const {
  const auto found = keys_.find(key);
  return found == keys_.end() ? nullptr : &metadata_[found->second].second.value;
}

const gguf_tensor* gguf_file::find_tensor(std::string_view name) const {
  const auto found = names_.find(name);
  return found == names_.end() ? nullptr : &tensors_[found->second];
}

void gguf_file::read(const gguf_tensor& x, std::int64_t first, std::span<float> out) const {
  ensure(first >= 0 && first <= x.extents.size()
             && std::int64_t(out.size()) <= x.extents.size() - first,
         "GGUF-5: elements that are read lie inside their tensor");
  const auto& format = format_of(x.type);
  const auto* const blocks = file_.bytes().data() + x.offset;
  std::vector<float> block(std::size_t(format.elements));
  for (std::size_t done = 0; done < out.size();) {
    const auto at = first + std::int64_t(done);
    const auto skipped = std::size_t(at % format.elements);
    const auto* const from = blocks + std::size_t(at / format.elements) * format.bytes;
    const auto left = out.size() - done;
    if (const auto whole = left - left % block.size(); skipped == 0 && whole > 0) {
      dequantise(x.type, from, out.subspan(done, whole));
      done += whole;
      continue;
    }
    dequantise(x.type, from, block);
    const auto some = std::min(left, block.size() - skipped);
    std::copy_n(block.begin() + std::ptrdiff_t(skipped), some, out.begin() + std::ptrdiff_t(done));
    done += some;
  }
  file_.require_intact();
}

}  // namespace troupe::runtime
