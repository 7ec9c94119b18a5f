// Fuzzes a file with the choices of a router.

#include "runtime/model/expert_choices.hpp"
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
  return {fuzz::get(fuzz::folder() / "seed/r.choices")};
}

std::vector<std::string> fuzz::dictionary() {
  return {"TRCHOICE", std::string("\1\0\0\0", 4), std::string("\5\0", 2), std::string(8, '\0')};
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
  return 0;
}
