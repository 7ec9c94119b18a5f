#include "runtime/collective/window/offer.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace troupe::runtime {

namespace {

struct offer_words {
  std::array<char, 24> what;
  std::int64_t elements, detail, parts, cuts_are_own, ends, arrays;
};
static_assert(sizeof(offer_words) == words_of_head * sizeof(std::int64_t));

}  // namespace

collective_call window_offer::call() const {
  return {.what = what.c_str(),
          .elements = elements,
          .detail = detail,
          .parts = parts,
          .ends = ends,
          .cuts_are_own = cuts_are_own};
}

window_offer offer_of(const collective_call& call, std::vector<window_array> arrays) {
  return {.what = call.what,
          .elements = call.elements,
          .detail = call.detail,
          .parts = call.parts,
          .cuts_are_own = call.cuts_are_own,
          .ends = {call.ends.begin(), call.ends.end()},
          .arrays = std::move(arrays)};
}

std::vector<std::int64_t> words_of(const window_offer& x) {
  offer_words head{.what = {},
                   .elements = x.elements,
                   .detail = x.detail,
                   .parts = std::int64_t(x.parts),
                   .cuts_are_own = x.cuts_are_own,
                   .ends = std::int64_t(x.ends.size()),
                   .arrays = std::int64_t(x.arrays.size())};
  std::copy_n(x.what.data(), std::min(x.what.size(), head.what.size() - 1), head.what.data());
  std::vector<std::int64_t> out(words_of_head);
  std::memcpy(out.data(), &head, sizeof head);
  out.insert(out.end(), x.ends.begin(), x.ends.end());
  for (const auto& array : x.arrays) {
    out.push_back(std::int64_t(reinterpret_cast<std::uintptr_t>(array.at)));
    out.push_back(array.bytes);
    out.push_back(array.place.descriptor);
    out.push_back(std::int64_t(array.place.inode));
    out.push_back(array.place.offset);
  }
  return out;
}

std::optional<window_offer> offer_in(std::span<const std::int64_t> words) {
  if (words.size() < words_of_head || words.size() > most_words_of_offer)
    return std::nullopt;
  offer_words head;
  std::memcpy(&head, words.data(), sizeof head);
  const auto most = std::int64_t(most_words_of_offer);
  if (head.what.back() != 0 || head.ends < 0 || head.ends > most || head.arrays < 0
      || head.arrays > most || head.parts < 0 || head.parts > head.arrays
      || std::int64_t(words.size())
             != std::int64_t(words_of_head) + head.ends + words_of_array * head.arrays)
    return std::nullopt;
  window_offer out{.what = head.what.data(),
                   .elements = head.elements,
                   .detail = int(head.detail),
                   .parts = std::size_t(head.parts),
                   .cuts_are_own = head.cuts_are_own != 0};
  auto at = words.begin() + std::ptrdiff_t(words_of_head);
  out.ends.assign(at, at + head.ends);
  at += head.ends;
  for (; at != words.end(); at += words_of_array) {
    out.arrays.push_back({reinterpret_cast<const void*>(std::uintptr_t(at[0])),
                          at[1],
                          {int(at[2]), std::uint64_t(at[3]), at[4]}});
    if (at[1] < 0)
      return std::nullopt;
  }
  return out;
}

}  // namespace troupe::runtime
