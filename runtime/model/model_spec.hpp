// Description of a whole model: units in execution order, each on a named stream. A model family
// creates it from its configuration; chunks are cut from it.

#pragma once

#include "runtime/model/layers/embedding.hpp"
#include "runtime/model/layers/head.hpp"
#include "runtime/model/layers/layer.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe::runtime {

/// Hidden states that pass from unit to unit.
struct stream_spec {
  std::string name;
  std::int64_t width = 0;  ///< C
  /// The tensor of the micro-batch with the positions of its rows, (B, T) i32. Streams with other
  /// positions may have another T.
  std::string positions = "positions";
  /// The tensor with the borders of its documents, (D + 1) i32, if the micro-batch has one. Streams
  /// with other positions have other borders of as many documents. "document_samples" (D) are those
  /// of all. Empty: "documents" for "positions", none for others.
  std::string documents = {};
};

/// The name of the borders of a stream's documents; empty: it has none.
std::string documents_of(const stream_spec& x);

/// A part of a model that is never cut.
struct model_unit {
  char letter = 't';        ///< in layout strings: any letter, as E embedding, t layer, L loss
  std::string name;         ///< "decoder.layers.3"
  std::string prefix;       ///< start of the names of its parameters; may be empty
  std::int64_t layer = -1;  ///< number of the layer in its stack; -1: no layer
  std::string stream;       ///< the stream that it works on
  module_spec module;
  bool frozen = false;  ///< all its parameters are frozen
};

/// Neighbouring units with one letter.
struct letter_run {
  char letter = 't';
  std::int64_t units = 0;
  bool layers = false;  ///< they are layers: splits share them out

  friend bool operator==(const letter_run&, const letter_run&) = default;
};
/// The letters of a model's units in order.
using unit_letters = std::vector<letter_run>;

struct model_spec {
  std::int64_t sequence = 0;  ///< T: sequence length in training
  std::vector<stream_spec> streams;
  std::vector<model_unit> units;
  /// Radians per position for each rotated pair of channels; empty without rotary positions.
  std::vector<float> rotary_frequency = {};

  /// Appends a unit. A layer has a number.
  void add(char letter,
           std::string name,
           std::string prefix,
           std::string stream,
           module_spec module,
           std::int64_t layer = -1) {
    units.push_back({.letter = letter,
                     .name = std::move(name),
                     .prefix = std::move(prefix),
                     .layer = layer,
                     .stream = std::move(stream),
                     .module = std::move(module)});
  }

  unit_letters letters() const;
  /// Breaks MODEL-2 if it has none of this name.
  const stream_spec& stream_of(std::string_view name) const;
  /// The unit with this number among the modules of type X. Breaks MODEL-3 if there is none.
  template <class X>
  const X& part(std::size_t number = 0) const {
    for (const auto& unit : units)
      if (const auto* const found = unit.module.get_if<X>(); found != nullptr && number-- == 0)
        return *found;
    missing_part();
  }
  template <class X>
  X& part(std::size_t number = 0) {
    return const_cast<X&>(std::as_const(*this).part<X>(number));
  }
  /// Limit of the sequence length by learned positions; 0: none.
  std::int64_t positions() const { return part<embedding_spec>().positions; }
  const embedding_spec& embedding() const { return part<embedding_spec>(); }
  const head_spec& head() const { return part<head_spec>(); }

 private:
  [[noreturn]] static void missing_part();
};

/// Describes the first loss that breaks the rules of loss_spec, has two weights, or shares its
/// field in logs with another name; empty: none.
std::string wrong_loss(const std::vector<loss_spec>& all);
/// The losses of a model: those of its last unit, then those of the others in model order. Units
/// that name the same loss add to it. Breaks MODEL-6 if one of them is wrong.
std::vector<loss_spec> losses_of(const model_spec& model);
/// True if "lm loss" with weight 1 is the only loss. Reports then have no list of losses.
bool is_only_lm_loss(const std::vector<loss_spec>& losses);

}  // namespace troupe::runtime
