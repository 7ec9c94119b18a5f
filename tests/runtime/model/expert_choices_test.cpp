// Choices of experts in files: ranks write and read parts of them, and other content is refused.

#include "runtime/model/expert_choices.hpp"

#include "runtime/core/error.hpp"
#include "tests/support/broken.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <filesystem>
#include <limits>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using troupe::tests::scratch_folder;

namespace {

constexpr std::int64_t E = 5, k = 2, T = 4;

choice_rows rows_of_samples(std::vector<std::uint64_t> samples,
                            std::int64_t first,
                            std::int64_t count) {
  return {.router = "r",
          .experts = E,
          .each = k,
          .positions = T,
          .samples = std::move(samples),
          .first = first,
          .count = count};
}

/// A choice for each row that depends on its sample and position.
std::vector<std::int32_t> choices_of(const choice_rows& x) {
  std::vector<std::int32_t> out;
  for (auto row = x.first; row < x.first + x.count; ++row) {
    const auto sample = std::int32_t(x.samples[std::size_t(row / T)]);
    const auto position = std::int32_t(row % T);
    out.push_back((3 * sample + position) % 5);
    out.push_back((3 * sample + position + 1 + position % 3) % 5);
  }
  return out;
}

recorded_choice recorded(const choice_rows& x) {
  const auto chosen = choices_of(x);
  return {x, {chosen.begin(), chosen.end()}};
}

/// The file after a run of the samples 0 and 2.
std::string some_file() {
  const scratch_folder folder;
  choice_writer(folder.path()).write(recorded(rows_of_samples({0, 2}, 0, 2 * T)));
  return read_text(folder / "r.choices");
}

void refuses(const std::string& bytes, const std::string& reason) {
  CAPTURE(reason);
  const scratch_folder folder;
  write_text(folder / "r.choices", bytes);
  choice_reader from(folder.path());
  CHECK_THROWS_MATCHES(from.read(rows_of_samples({2, 0}, 0, 2 * T)),
                       input_error,
                       MessageMatches(ContainsSubstring(reason)));
}

}  // namespace

TEST_CASE("ranks read choices that other ranks have written", "[model]") {
  const scratch_folder folder;
  choice_writer one(folder / "new"), other(folder / "new");
  one.write(recorded(rows_of_samples({6, 2}, 0, 3)));
  other.write(recorded(rows_of_samples({6, 2}, 3, 5)));
  one.write(recorded(rows_of_samples({0}, 0, T)));
  choice_reader from(folder / "new");
  for (const auto& rows : {rows_of_samples({2}, 0, T),
                           rows_of_samples({6, 2}, 0, 2 * T),
                           rows_of_samples({2, 0, 6}, 2, 7),
                           rows_of_samples({2, 0, 6}, 5, 0)})
    CHECK(from.read(rows) == choices_of(rows));
}

TEST_CASE("choices that are written again replace earlier ones", "[model]") {
  const scratch_folder folder;
  const auto rows = rows_of_samples({1}, 0, 1);
  choice_writer(folder.path()).write({rows, {4, 3}});
  choice_writer(folder.path()).write({rows, {2, 0}});
  CHECK(choice_reader(folder.path()).read(rows) == std::vector<std::int32_t>{2, 0});
}

TEST_CASE("a file of choices has a header, and a word for each choice", "[model]") {
  const auto file = some_file();
  REQUIRE(file.size() == 32 + 3 * T * k * 2);
  const std::string header("TRCHOICE\1\0\0\0\5\0\0\0\2\0\0\0\0\0\0\0\4\0\0\0\0\0\0\0", 32);
  CHECK(file.substr(0, 32) == header);
  CHECK(file.substr(32, 8) == std::string("\1\0\2\0\2\0\4\0", 8));
  CHECK(file.substr(32 + T * k * 2, T * k * 2) == std::string(T * k * 2, '\0'));
}

TEST_CASE("FOREIGN-BYTES: files with other choices, or with none, are refused", "[model]") {
  const auto good = some_file();
  const auto changed = [&good](std::size_t at, char to) {
    auto out = good;
    out.at(at) = to;
    return out;
  };
  refuses("", "does not begin like choices of experts");
  refuses(good.substr(0, 31), "does not begin like choices of experts");
  refuses(changed(0, 't'), "does not begin like choices of experts");
  refuses(changed(8, 2), "has version 2");
  refuses(changed(12, 6), "2 of 6 experts for each of 4 tokens");
  refuses(changed(16, 1), "1 of 5 experts");
  refuses(changed(24, 5), "each of 5 tokens");
  refuses(good.substr(0, 32), "lacks choices of sample 2");
  refuses(good.substr(0, good.size() - 1), "lacks choices of sample 2");
  refuses(changed(32 + 2, 0), "lacks choices of sample 0");
  refuses(changed(32, 6), "damaged: token 0 of sample 0 has choice 5");
  refuses(changed(33, 1), "damaged: token 0 of sample 0 has choice 256");
  refuses(changed(32 + 2, 1), "damaged: token 0 of sample 0 has choice 0");
  const scratch_folder folder;
  choice_reader none(folder.path());
  CHECK_THROWS_MATCHES(none.read(rows_of_samples({0}, 0, T)),
                       input_error,
                       MessageMatches(ContainsSubstring("there is no '")));
  write_text(folder / "r.choices", good);
  choice_reader few(folder.path());
  for (const auto sample : {std::uint64_t{1}, std::uint64_t{3}, ~std::uint64_t{0}})
    CHECK_THROWS_MATCHES(few.read(rows_of_samples({sample}, 0, T)),
                         input_error,
                         MessageMatches(ContainsSubstring("lacks choices of sample")));
}

TEST_CASE("a folder without choices is refused before a replay", "[model]") {
  const scratch_folder folder;
  CHECK_THROWS_MATCHES(require_choices(folder.path()),
                       input_error,
                       MessageMatches(ContainsSubstring("has no choices of experts")));
  CHECK_THROWS_AS(require_choices(folder / "none"), input_error);
  write_text(folder / "notes.txt", "mine");
  CHECK_THROWS_AS(require_choices(folder.path()), input_error);
  write_text(folder / "r.choices", some_file());
  CHECK_NOTHROW(require_choices(folder.path()));
  write_text(folder / "s.choices", "mine");
  CHECK_THROWS_MATCHES(require_choices(folder.path()),
                       input_error,
                       MessageMatches(ContainsSubstring("does not begin like")));
}

TEST_CASE("a record does not overwrite other files", "[model]") {
  const scratch_folder folder;
  write_text(folder / "r.choices", "my notes");
  const auto write = [&](const recorded_choice& x) { choice_writer(folder.path()).write(x); };
  CHECK_THROWS_MATCHES(write(recorded(rows_of_samples({0}, 0, T))),
                       input_error,
                       MessageMatches(ContainsSubstring("name another folder")));
  CHECK(read_text(folder / "r.choices") == "my notes");
  write_text(folder / "r.choices", some_file());
  auto wider = rows_of_samples({0}, 0, 1);
  wider.experts = 6;
  CHECK_THROWS_AS(write({wider, {0, 5}}), input_error);
  const auto last = std::numeric_limits<std::uint64_t>::max();
  CHECK_THROWS_MATCHES(write({rows_of_samples({last}, 0, 1), {0, 1}}),
                       input_error,
                       MessageMatches(ContainsSubstring("too large")));
  CHECK(read_text(folder / "r.choices") == some_file());
}

TEST_CASE("CHOICES-1: a record has the choices of each of its rows", "[model][invariant]") {
  const scratch_folder folder;
  choice_writer to(folder.path());
  CHECK_BREAKS("CHOICES-1", to.write({rows_of_samples({0}, 0, 2), {0, 1, 2}}));
}
