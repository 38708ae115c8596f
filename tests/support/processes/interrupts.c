/* Interrupts the main thread at a chosen step of Python code, as Ctrl-C does: the signal is pending
 * when that step begins, and Python acts on it where it next looks for signals. (An exception that a
 * trace function of Python raises comes also where none can come, such as at the end of a `with`.)
 * Declared here and not included: the headers of Python need not be installed.
 */
#include <string.h>

typedef struct object PyObject;
typedef int (*Tracer)(PyObject *, PyObject *, int, PyObject *);
extern void PyEval_SetTrace(Tracer, PyObject *);
extern PyObject *PyFrame_GetCode(PyObject *);
extern PyObject *PyObject_GetAttrString(PyObject *, const char *);
extern int PyObject_SetAttrString(PyObject *, const char *, PyObject *);
extern PyObject *PyBool_FromLong(long);
extern const char *PyUnicode_AsUTF8(PyObject *);
extern void Py_DecRef(PyObject *);
extern void PyErr_SetInterrupt(void);

enum { CALL = 0, OPCODE = 7, NAMES = 4096 };

static char wanted_names[NAMES]; /* each between two newlines */
static long steps, due;

/* Whether the last two parts of the path of the frame's source are wanted. */
static int is_wanted(PyObject *frame) {
    PyObject *code = PyFrame_GetCode(frame);
    PyObject *path = PyObject_GetAttrString(code, "co_filename");
    const char *text = PyUnicode_AsUTF8(path), *end = text + strlen(text), *start = end;
    char name[256] = "\n";
    int slashes = 0, found = 0;
    while (start > text && slashes < 2) slashes += *--start == '/';
    if (slashes == 2) start++;
    if (end - start < 250) {
        memcpy(name + 1, start, end - start);
        strcpy(name + 1 + (end - start), "\n");
        found = strstr(wanted_names, name) != 0;
    }
    Py_DecRef(path);
    Py_DecRef(code);
    return found;
}

static int trace(PyObject *self, PyObject *frame, int what, PyObject *argument) {
    (void)self, (void)argument;
    if (what == CALL && is_wanted(frame)) {
        PyObject *yes = PyBool_FromLong(1);
        PyObject_SetAttrString(frame, "f_trace_opcodes", yes);
        Py_DecRef(yes);
    }
    if (what == OPCODE && steps++ == due) PyErr_SetInterrupt();
    return 0;
}

/* `names`: such as "\nqueues/output_queue.py\n". A negative step only counts. */
void interrupt_at(const char *names, long step) {
    strncpy(wanted_names, names, NAMES - 1);
    steps = 0;
    due = step;
    PyEval_SetTrace(trace, 0);
}

long stop_interrupting(void) {
    PyEval_SetTrace(0, 0);
    return steps;
}
