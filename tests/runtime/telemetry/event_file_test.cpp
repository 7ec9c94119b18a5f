// Event files, checked with a decoder of this test.

#include "runtime/telemetry/event_file.hpp"

#include "runtime/file/file.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

using namespace troupe::runtime;
using troupe::tests::scratch_folder;
namespace fs = std::filesystem;

namespace {

/// CRC-32C bit by bit from the definition: RFC 3720, appendix B.4.
std::uint32_t checksum(const std::string& bytes) {
  std::uint32_t crc = 0xffffffff;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit)
      crc = (crc & 1) != 0 ? (crc >> 1) ^ 0x82f63b78 : crc >> 1;
  }
  return crc ^ 0xffffffff;
}

std::uint32_t masked(std::uint32_t crc) {
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

class bytes_reader {
 public:
  explicit bytes_reader(std::string text) : text_(std::move(text)) {}
  bool is_at_end() const { return at_ == text_.size(); }

  std::string take(std::size_t n) {
    REQUIRE(at_ + n <= text_.size());
    at_ += n;
    return text_.substr(at_ - n, n);
  }
  template <class T>
  T number() {
    T x;
    const auto bytes = take(sizeof x);
    std::memcpy(&x, bytes.data(), sizeof x);
    return x;
  }
  std::uint64_t varint() {
    std::uint64_t x = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = number<std::uint8_t>();
      x |= std::uint64_t(byte & 0x7f) << shift;
      if (byte < 0x80)
        return x;
    }
  }
  std::string counted() { return take(std::size_t(varint())); }

 private:
  std::string text_;
  std::size_t at_ = 0;
};

struct event {
  double wall_time = 0;
  std::uint64_t step = 0;
  std::string version, session;
  std::map<std::string, float> values;
};

event decoded(const std::string& record) {
  event out;
  bytes_reader in(record);
  while (!in.is_at_end())
    switch (const auto key = in.varint()) {
      case 1 << 3 | 1:
        out.wall_time = in.number<double>();
        break;
      case 2 << 3 | 0:
        out.step = in.varint();
        break;
      case 3 << 3 | 2:
        out.version = in.counted();
        break;
      case 7 << 3 | 2:
        out.session = in.counted();
        break;
      case 5 << 3 | 2: {
        bytes_reader summary(in.counted());
        while (!summary.is_at_end()) {
          REQUIRE(summary.varint() == (1 << 3 | 2));
          bytes_reader value(summary.counted());
          REQUIRE(value.varint() == (1 << 3 | 2));
          const auto name = value.counted();
          REQUIRE(value.varint() == (2 << 3 | 5));
          out.values[name] = value.number<float>();
          REQUIRE(value.is_at_end());
        }
        break;
      }
      default:
        FAIL("an unexpected field: " << key);
    }
  return out;
}

std::vector<event> events_in(const fs::path& file) {
  std::vector<event> out;
  bytes_reader in(read_text(file));
  while (!in.is_at_end()) {
    const auto head = in.take(8);
    CHECK(in.number<std::uint32_t>() == masked(checksum(head)));
    std::uint64_t size = 0;
    std::memcpy(&size, head.data(), 8);
    const auto record = in.take(std::size_t(size));
    CHECK(in.number<std::uint32_t>() == masked(checksum(record)));
    out.push_back(decoded(record));
  }
  return out;
}

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> out;
  for (const auto& x : fs::directory_iterator(folder))
    if (!x.is_directory())
      out.push_back(x.path());
  std::sort(out.begin(), out.end());
  return out;
}

step_report step(std::uint64_t iteration) {
  return {.iteration = iteration,
          .consumed_samples = iteration * 300,
          .global_batch_size = 300,
          .loss = 1.0 / double(iteration),
          .grad_norm = 0.5,
          .learning_rate = 1e-3,
          .elapsed_ms = 250,
          .tokens_per_second = 77,
          .flops_per_second = 3e12};
}

}  // namespace

TEST_CASE("the checksum is CRC-32C", "[event_file]") {
  // RFC 3720, B.4: 32 zeros; and the usual check word "123456789"
  CHECK(crc32c(std::string(32, '\0')) == 0x8a9136aa);
  CHECK(crc32c("123456789") == 0xe3069283);
  CHECK(masked_crc32c("123456789") == masked(checksum("123456789")));
}

TEST_CASE("every step is one event by steps and one by samples", "[event_file]") {
  const scratch_folder folder;
  {
    const auto file = open_event_file(folder / "board", {.log = {}, .interval = 1});
    file->write(step(1));
    file->write(validation_report{1, 25.0});
    file->write(step(2));
  }
  const auto files = files_in(folder / "board");
  REQUIRE(files.size() == 1);
  CHECK(files[0].filename().string().starts_with("events.out.tfevents."));
  const auto events = events_in(files[0]);
  REQUIRE(events.size() == 5);
  CHECK(events[0].version == "brain.Event:2");
  CHECK(events[1].session == "\b\1");  // field 1, a number: START
  CHECK(events[1].step == 1);
  CHECK(events[2].step == 1);
  CHECK(events[2].values
        == std::map<std::string, float>{{"learning-rate", 1e-3F},
                                        {"batch-size", 300},
                                        {"grad-norm", 0.5F},
                                        {"lm loss", 1},
                                        {"tokens-per-second", 77},
                                        {"iteration-time", 0.25F},
                                        {"skipped-iterations", 0},
                                        {"nan-iterations", 0}});
  CHECK(events[3].step == 1);
  CHECK(events[3].values
        == std::map<std::string, float>{{"lm loss validation", 25},
                                        {"lm loss validation ppl", float(std::exp(20.0))}});
  CHECK(events[4].step == 2);
  CHECK(events[2].wall_time > 1.7e9);
  CHECK(events[4].wall_time >= events[2].wall_time);

  const auto samples = events_in(files_in(folder / "board/samples").at(0));
  REQUIRE(samples.size() == 5);
  CHECK(samples[1].session == "\b\1");
  CHECK(samples[2].step == 300);
  CHECK(samples[2].values.size() == events[2].values.size());
  CHECK(samples[2].values.at("lm loss vs samples") == 1);
  CHECK(samples[3].step == 300);
  CHECK(samples[3].values.count("lm loss validation vs samples") == 1);
  CHECK(samples[4].step == 600);
}

TEST_CASE("several losses have a curve each and one for their sum; a loss over nothing has none",
          "[event_file]") {
  const scratch_folder folder;
  {
    const auto file = open_event_file(folder.path(), {.log = {}, .interval = 1});
    auto x = step(1);
    x.loss = 4.5;
    x.losses = {{"lm loss", 4}, {"sop loss", 1}};
    file->write(x);
    file->write(validation_report{1, 4, false, {{"lm loss", 4}, {"sop loss", NAN}}});
    file->write(validation_report{1, 6, true, {{"lm loss", 5}, {"sop loss", 2}}});
  }
  const auto events = events_in(files_in(folder.path()).at(0));
  REQUIRE(events.size() == 5);
  CHECK(events[2].values.at("lm loss") == 4);
  CHECK(events[2].values.at("sop loss") == 1);
  CHECK(events[2].values.at("loss") == 4.5F);
  CHECK(events[3].values
        == std::map<std::string, float>{{"loss validation", 4},
                                        {"lm loss validation", 4},
                                        {"lm loss validation ppl", float(std::exp(4.0))}});
  CHECK(events[4].values.at("loss test") == 6);
  CHECK(events[4].values.at("sop loss test") == 2);
}

TEST_CASE("requested values are present, and values that are not finite are left out",
          "[event_file]") {
  const scratch_folder folder;
  auto x = step(3);
  x.params_norm = 9;
  x.scale.value = 65536;
  x.zero_gradients = 12;
  x.loss = NAN;
  x.grad_norm = HUGE_VAL;
  x.skipped = {.iterations = 1, .samples = 300, .nan = 1, .in_a_row = 1};
  open_event_file(folder.path(), {.log = {.throughput = true, .matrix_rate = 6e12}, .interval = 3})
      ->write(x);
  const auto values = events_in(files_in(folder.path()).at(0)).at(2).values;
  CHECK(values.count("lm loss") == 0);
  CHECK(values.count("grad-norm") == 0);
  CHECK(values.at("skipped-iterations") == 1);
  CHECK(values.at("nan-iterations") == 1);
  CHECK(values.at("params-norm") == 9);
  CHECK(values.at("loss-scale") == 65536);
  CHECK(values.at("num-zeros") == 12);
  CHECK(values.at("throughput") == 3);
  CHECK(values.at("share-of-matrix-rate") == 0.5F);
}

TEST_CASE("experts of a counted step have curves of the extremes, and of each layer on request",
          "[event_file]") {
  const scratch_folder folder;
  auto x = step(1);
  const auto written = [&](const char* name, bool layers) {
    open_event_file(folder / name, {.log = {.expert_layers = layers}, .interval = 1})->write(x);
    return events_in(files_in(folder / name).at(0)).at(2).values;
  };
  const auto dense = written("dense", true);
  x.experts = {{.layer = "decoder.layers.1", .most = 5, .least = 2, .entropy = 0.75},
               {.layer = "decoder.layers.2", .most = 4, .least = 0, .dropped = 3, .entropy = 0.5}};
  const auto extremes = written("extremes", false), layers = written("layers", true);
  CHECK(extremes.size() == dense.size() + 4);
  CHECK(extremes.at("most-expert-rows") == 5);
  CHECK(extremes.at("least-expert-rows") == 0);
  CHECK(extremes.at("expert-entropy") == 0.5F);
  CHECK(extremes.at("dropped-expert-rows") == 3);
  CHECK(layers.size() == dense.size() + 3 * 4);
  CHECK(layers.at("most-expert-rows/decoder.layers.1") == 5);
  CHECK(layers.at("expert-entropy/decoder.layers.2") == 0.5F);
}

TEST_CASE("the interval selects steps; every validation is written", "[event_file]") {
  const scratch_folder folder;
  {
    const auto file = open_event_file(folder.path(), {.log = {}, .interval = 2});
    for (std::uint64_t i = 1; i < 6; ++i)
      file->write(step(i));
    file->write(validation_report{5, 2});
  }
  std::vector<std::uint64_t> steps;
  for (const auto& x : events_in(files_in(folder.path()).at(0)))
    steps.push_back(x.step);
  CHECK(steps == std::vector<std::uint64_t>{0, 1, 2, 4, 5});
}

TEST_CASE("a continued run has a file that sorts after the others", "[event_file]") {
  const scratch_folder folder;
  std::vector<fs::path> before;
  for (std::uint64_t run = 1; run < 4; ++run) {  // within the same second
    open_event_file(folder.path(), {})->write(step(run));
    const auto now = files_in(folder.path());
    REQUIRE(now.size() == run);
    CHECK(std::equal(before.begin(), before.end(), now.begin()));
    CHECK(events_in(now.back()).at(2).step == run);
    before = now;
  }
}

TEST_CASE("a continued run says where it starts, by steps and by samples", "[event_file]") {
  const scratch_folder folder;
  open_event_file(folder.path(), {.first_iteration = 20, .first_consumed = 6000})->write(step(21));
  CHECK(events_in(files_in(folder.path()).at(0)).at(1).step == 21);
  CHECK(events_in(files_in(folder / "samples").at(0)).at(1).step == 6001);
}
