/* What instrumented Python code calls at every branch and at every comparison, many times for each input.

   atheris has both in C++ behind pybind11, where a call takes four times as long; most of the time of the fuzzers of Python
   code went there. The counters are still those of atheris: drive.py hands over the library that has them. */

#define _GNU_SOURCE
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <dlfcn.h>
#include <stdint.h>

static void (*increment)(int counter);
static void (*compare)(uint64_t left, uint64_t right);
static void (*compare_constant)(uint64_t constant, uint64_t other);

static int operator_shift;      /* what the number of an operator has to its right differs between versions of Python */

/* In the library of atheris, or in libFuzzer where that is preloaded. */
static void *find(void *library, const char *name) {
    void *found = dlsym(library, name);
    return found ? found : dlsym(RTLD_DEFAULT, name);
}

/* connect(path of the library of atheris, operator_shift) */
static PyObject *connect(PyObject *module, PyObject *arguments) {
    const char *path;
    if (!PyArg_ParseTuple(arguments, "si", &path, &operator_shift)) return NULL;
    void *library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    if (!library) return PyErr_Format(PyExc_ImportError, "%s is not loaded", path);
    increment = (void (*)(int))find(library, "_ZN7atheris16IncrementCounterEi");
    compare = (void (*)(uint64_t, uint64_t))find(library, "__sanitizer_cov_trace_cmp8");
    compare_constant = (void (*)(uint64_t, uint64_t))find(library, "__sanitizer_cov_trace_const_cmp8");
    if (!increment || !compare || !compare_constant)
        return PyErr_Format(PyExc_ImportError, "%s is not as expected", path);
    Py_RETURN_NONE;
}

/* trace_branch(counter) */
static PyObject *trace_branch(PyObject *module, PyObject *counter) {
    increment((int)PyLong_AsLong(counter));
    Py_RETURN_NONE;
}

/* trace_cmp(left, right, operator, counter, left_is_constant): what the operator gives. libFuzzer hears of numbers only:
   words that the code compares with are in the dictionaries. */
static PyObject *trace_cmp(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    PyObject *left = arguments[0], *right = arguments[1];
    if (PyLong_Check(left) && PyLong_Check(right)) {
        int overflow = 0, other = 0;
        int64_t one = PyLong_AsLongLongAndOverflow(left, &overflow);
        int64_t two = PyLong_AsLongLongAndOverflow(right, &other);
        if (!overflow && !other) (arguments[4] == Py_True ? compare_constant : compare)(one, two);
    }
    return PyObject_RichCompare(left, right, (int)PyLong_AsLong(arguments[2]) >> operator_shift);
}

static PyMethodDef methods[] = {
    {"connect", connect, METH_VARARGS, NULL},
    {"trace_branch", trace_branch, METH_O, NULL},
    {"trace_cmp", (PyCFunction)(void (*)(void))trace_cmp, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "branches", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_branches(void) { return PyModule_Create(&definition); }
