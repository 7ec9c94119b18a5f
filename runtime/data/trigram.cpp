#include "runtime/data/trigram.hpp"

#include <cmath>

namespace troupe::runtime {
namespace {

constexpr std::size_t n = trigram_model::symbols;

std::size_t at(int a, int b) {
  return std::size_t(a) * n + std::size_t(b);
}

std::size_t at(int a, int b, int c) {
  return at(a, b) * n + std::size_t(c);
}

/// Calls visit(a, b, c) for each symbol c of the document and the two symbols before it.
template <class Visit>
void walk(std::string_view document, Visit&& visit) {
  int a = trigram_model::end_of_document, b = a;
  for (const char byte : document) {
    const int c = static_cast<unsigned char>(byte);
    visit(a, b, c);
    a = b;
    b = c;
  }
  visit(a, b, trigram_model::end_of_document);
}

}  // namespace

trigram_model::trigram_model()
    : triples_(n * n * n), pairs_(n * n), singles_(n), after_two_(n * n), after_one_(n) {}

void trigram_model::add(std::string_view document) {
  walk(document, [this](int a, int b, int c) { count(a, b, c); });
}

void trigram_model::count(int a, int b, int c) {
  const auto add = [](std::uint32_t& times, context& before) {
    before.successors += times == 0 ? 1 : 0;
    ++before.seen;
    ++times;
  };
  add(triples_[at(a, b, c)], after_two_[at(a, b)]);
  add(pairs_[at(b, c)], after_one_[std::size_t(b)]);
  add(singles_[std::size_t(c)], after_none_);
}

double trigram_model::probability(int a, int b, int c) const {
  const auto interpolate = [](std::uint32_t times, const context& before, double shorter) {
    const auto t = double(before.successors);
    return before.seen == 0 ? shorter : (double(times) + t * shorter) / (double(before.seen) + t);
  };
  double p = interpolate(singles_[std::size_t(c)], after_none_, 1.0 / symbols);
  p = interpolate(pairs_[at(b, c)], after_one_[std::size_t(b)], p);
  return interpolate(triples_[at(a, b, c)], after_two_[at(a, b)], p);
}

double trigram_model::bits(std::string_view document) const {
  double sum = 0;
  walk(document, [&](int a, int b, int c) { sum -= std::log2(probability(a, b, c)); });
  return sum;
}

}  // namespace troupe::runtime
