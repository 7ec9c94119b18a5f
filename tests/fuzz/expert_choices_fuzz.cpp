// Fuzzes a file with the choices of a router, and one with the texts of such files.

#include "runtime/model/choice_texts.hpp"
#include "tests/fuzz/fuzz.hpp"

#include <algorithm>

using namespace troupe::runtime;
using namespace troupe::tests;

namespace {

/// Parts of two samples of four tokens, each with two of five experts.
choice_rows wanted() {
  return {.router = "r",
          .experts = 5,
          .each = 2,
          .positions = 4,
          .samples = {0, 2},
          .first = 1,
          .count = 5};
}

}  // namespace

std::vector<std::string> fuzz::seeds() {
  choice_writer(fuzz::folder() / "seed").write({wanted(), {0, 1, 4, 2, 3, 0, 1, 2, 2, 4}});
  std::filesystem::remove_all(fuzz::folder() / "texts of seed");
  choice_text_writer texts(fuzz::folder() / "texts of seed", 4);
  texts.write_tokens(0, 0, std::vector<std::int32_t>{3, 1, 4});
  texts.write_tokens(1, 0, std::vector<std::int32_t>{3, 1, 5, 9});
  return {fuzz::get(fuzz::folder() / "seed/r.choices"),
          fuzz::get(fuzz::folder() / "texts of seed/texts")};
}

std::vector<std::string> fuzz::dictionary() {
  return {"TRCHOICE",
          std::string("TRTEXTS\0", 8),
          std::string("\1\0\0\0", 4),
          std::string("\5\0", 2),
          std::string(8, '\0')};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::put(fuzz::folder() / "r.choices", fuzz::text_of(data, size));
  fuzz::accepted([] {
    const auto found = choice_reader(fuzz::folder()).read(wanted());
    fuzz::require(found.size() == 10, "each row has its choices");
    for (std::size_t i = 0; i < found.size(); i += 2)
      fuzz::require(found[i] != found[i + 1] && std::min(found[i], found[i + 1]) >= 0
                        && std::max(found[i], found[i + 1]) < 5,
                    "the choices of a row are different experts");
    choice_writer(fuzz::folder() / "again").write({wanted(), {found.begin(), found.end()}});
    fuzz::require(choice_reader(fuzz::folder() / "again").read(wanted()) == found,
                  "choices survive a round trip");
  });
  fuzz::put(fuzz::folder() / "texts", fuzz::text_of(data, size));
  fuzz::accepted([] {
    const choice_texts texts(fuzz::folder());
    for (std::uint64_t text = 0; text < texts.size(); ++text)
      if (const auto its = texts.tokens(text); its.size() > 1) {
        const auto found = texts.find(its);
        fuzz::require(found && found->rows >= std::int64_t(its.size()) - 1, "a text is found");
      }
  });
  std::filesystem::remove(fuzz::folder() / "texts");
  return 0;
}
