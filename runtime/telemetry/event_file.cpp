#include "runtime/telemetry/event_file.hpp"

#include "runtime/file/file.hpp"
#include "runtime/telemetry/growing_file.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <chrono>
#include <cmath>
#include <fmt/format.h>
#include <optional>
#include <unistd.h>

namespace troupe::runtime {
namespace {

constexpr std::string_view file_stem = "events.out.tfevents.";

// Since version 2, a reader discards earlier events from the first step of a new session on.
constexpr std::string_view version = "brain.Event:2";
constexpr char session_begins[] = {1 << 3 | 0, 1};

constexpr std::array<std::uint32_t, 256> crc_table() {
  constexpr std::uint32_t polynomial = 0x82f63b78;  // 0x1edc6f41 with reversed bits
  std::array<std::uint32_t, 256> out = {};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t x = i;
    for (int bit = 0; bit < 8; ++bit)
      x = (x & 1) != 0 ? x >> 1 ^ polynomial : x >> 1;
    out[i] = x;
  }
  return out;
}

template <class Number>
void append_little_endian(std::string& to, Number x) {
  for (std::size_t byte = 0; byte < sizeof x; ++byte)
    to += char(x >> 8 * byte & 0xff);
}

// Wire format of protocol buffers: a field is a key (number and kind) and its content. Kinds: 0 is
// a varint (seven bits per byte), 1 is eight bytes, 2 is a length and that many bytes, 5 is four
// bytes.
void append_varint(std::string& to, std::uint64_t x) {
  for (; x >= 0x80; x >>= 7)
    to += char(x | 0x80);
  to += char(x);
}
void append_key(std::string& to, int field, int kind) {
  append_varint(to, std::uint64_t(field) << 3 | std::uint64_t(kind));
}
void append_bytes(std::string& to, int field, std::string_view bytes) {
  append_key(to, field, 2);
  append_varint(to, bytes.size());
  to += bytes;
}

std::string event_head(double wall_time, std::int64_t step) {
  std::string out;
  append_key(out, 1, 1);
  append_little_endian(out, std::bit_cast<std::uint64_t>(wall_time));
  append_key(out, 2, 0);
  append_varint(out, std::uint64_t(step));
  return out;
}

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// The time in the name of an event file, in seconds.
std::optional<std::int64_t> second_of(const std::string& name) {
  std::int64_t second = 0;
  if (!name.starts_with(file_stem))
    return std::nullopt;
  const auto [end, failure]
      = std::from_chars(name.data() + file_stem.size(), name.data() + name.size(), second);
  return failure == std::errc{} ? std::optional(second) : std::nullopt;
}

/// Files are read in the order of their names, so the new name must sort after the existing ones.
std::filesystem::path next_file(const std::filesystem::path& folder) {
  make_folder(folder);
  auto second = std::int64_t(wall_time());
  std::error_code failure;
  for (std::filesystem::directory_iterator at(folder, failure), end; !failure && at != end;
       at.increment(failure))
    if (const auto found = second_of(at->path().filename().string()))
      second = std::max(second, *found + 1);
  std::array<char, 256> host = {};
  if (::gethostname(host.data(), host.size() - 1) != 0)
    host = {'h', 'o', 's', 't'};
  return folder / fmt::format("{}{:010d}.{}.{}", file_stem, second, host.data(), ::getpid());
}

/// Creates a file that starts with a session at the run's first step.
std::unique_ptr<growing_file> begun(const std::filesystem::path& folder, std::uint64_t first) {
  auto out = std::make_unique<growing_file>("`watch.board_dir`", next_file(folder), false);
  auto head = event_head(wall_time(), 0);
  append_bytes(head, 3, version);
  auto session = event_head(wall_time(), std::int64_t(first));
  append_bytes(session, 7, {session_begins, sizeof session_begins});
  out->append(framed(head) + framed(session));
  return out;
}

class event_file final : public record_sink {
 public:
  event_file(const std::filesystem::path& folder, const board_settings& settings)
      : settings_(settings),
        by_steps_(begun(folder, settings.first_iteration + 1)),
        by_samples_(begun(folder / "samples", settings.first_consumed + 1)) {}

  void write(const step_report& x) override {
    newest_ = x.iteration;
    samples_ = x.consumed_samples;
    if (x.iteration % settings_.interval != 0)
      return;
    scalars values = {{"learning-rate", x.learning_rate},
                      {"batch-size", double(x.global_batch_size)},
                      {"grad-norm", x.grad_norm}};
    for (const auto& one : by_name(x.losses, x.loss))
      values.emplace_back(one.name, one.mean);
    if (!x.losses.empty())
      values.emplace_back("loss", x.loss);
    values.emplace_back("tokens-per-second", x.tokens_per_second);
    values.emplace_back("iteration-time", x.elapsed_ms / 1e3);
    values.emplace_back("skipped-iterations", double(x.skipped.iterations));
    values.emplace_back("nan-iterations", double(x.skipped.nan));
    if (x.scale.is_used())
      values.emplace_back("loss-scale", x.scale.value);
    if (x.params_norm >= 0)
      values.emplace_back("params-norm", x.params_norm);
    if (x.zero_gradients >= 0)
      values.emplace_back("num-zeros", double(x.zero_gradients));
    if (x.pipeline.ms >= 0) {
      values.emplace_back("pipeline-bubble", x.pipeline.bubble);
      values.emplace_back("planned-pipeline-bubble", x.pipeline.planned_bubble);
    }
    add_experts(x, values);
    if (settings_.log.throughput)
      values.emplace_back("throughput", x.flops_per_second / 1e12);
    if (settings_.log.throughput && settings_.log.matrix_rate > 0)
      values.emplace_back("share-of-matrix-rate", x.flops_per_second / settings_.log.matrix_rate);
    append(x.iteration, values);
  }

  void write(const validation_report& x) override {
    scalars values;
    const auto* const of = x.test ? " test" : " validation";
    if (!x.losses.empty())
      values.emplace_back(std::string("loss") + of, x.loss);
    for (const auto& one : by_name(x.losses, x.loss)) {
      if (std::isnan(one.mean))
        continue;  // std::min would make it a number
      const auto name = one.name + of;
      values.emplace_back(name, one.mean);
      if (one.name != accuracy_name && one.name != best_accuracy_name)
        values.emplace_back(name + " ppl", std::exp(std::min(20.0, one.mean)));
    }
    append(x.iteration, std::move(values));
  }

 private:
  void add_experts(const step_report& x, scalars& to) const {
    if (x.experts.empty())
      return;
    const auto add = [&to](const expert_load& load, const std::string& layer) {
      to.emplace_back("most-expert-rows" + layer, double(load.most));
      to.emplace_back("least-expert-rows" + layer, double(load.least));
      to.emplace_back("expert-entropy" + layer, load.entropy);
      to.emplace_back("dropped-expert-rows" + layer, double(load.dropped));
    };
    add(load_of(x.experts), "");
    if (settings_.log.expert_layers)
      for (const auto& load : x.experts)
        add(load, "/" + load.layer);
  }

  void append(std::uint64_t iteration, scalars values) {
    std::erase_if(values, [](const auto& x) { return !std::isfinite(x.second); });
    const double now = wall_time();
    by_steps_->append(framed(scalar_event(now, std::int64_t(iteration), values)));
    if (newest_ != iteration)
      return;  // a step of an earlier run: its samples are unknown
    for (auto& [name, value] : values)
      name += " vs samples";
    by_samples_->append(framed(scalar_event(now, std::int64_t(samples_), values)));
  }

  board_settings settings_;
  std::unique_ptr<growing_file> by_steps_, by_samples_;
  std::uint64_t newest_ = 0, samples_ = 0;  ///< of the latest step
};

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  static constexpr auto table = crc_table();
  std::uint32_t crc = ~std::uint32_t{0};
  for (const char c : bytes)
    crc = table[(crc ^ static_cast<unsigned char>(c)) & 0xff] ^ crc >> 8;
  return ~crc;
}

std::uint32_t masked_crc32c(std::string_view bytes) {
  return std::rotr(crc32c(bytes), 15) + 0xa282ead8;
}

std::string framed(std::string_view bytes) {
  std::string out;
  append_little_endian(out, std::uint64_t(bytes.size()));
  append_little_endian(out, masked_crc32c(out));
  out += bytes;
  append_little_endian(out, masked_crc32c(bytes));
  return out;
}

std::string scalar_event(double time, std::int64_t step, const scalars& values) {
  std::string summary;
  for (const auto& [name, value] : values) {
    std::string one;
    append_bytes(one, 1, name);
    append_key(one, 2, 5);
    append_little_endian(one, std::bit_cast<std::uint32_t>(float(value)));
    append_bytes(summary, 1, one);
  }
  auto out = event_head(time, step);
  append_bytes(out, 5, summary);
  return out;
}

std::unique_ptr<record_sink> open_event_file(const std::filesystem::path& folder,
                                             const board_settings& settings) {
  return std::make_unique<event_file>(folder, settings);
}

}  // namespace troupe::runtime
