// Operations with the memory they work on: one owner per family. Inputs are drawn from fixed
// seeds, results are set to a number that no operation computes, so that an element left unwritten
// is seen. Copy an owner to give two backends the same work:
//
//   linear_memory<float> a{.R = 5, .N = 7, .K = 3}, b = a;
//   reference::run(a.forward());
//   cpu::run(b.forward(), context);
//   CHECK(relative_error(b.y, a.y) < 1e-6);
//
// An operation is made anew by each call and points into its owner: it does not outlive it.

#pragma once

#include "tests/support/ops_products.hpp"
#include "tests/support/ops_rows.hpp"
